package redisstore_test

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness { return newHarness(t) })
}

// A harness is a Redis server with a hand on its switches.
type harness struct {
	t      testing.TB
	scheme string
	server *servers.RedisServer
}

func newHarness(t testing.TB, options ...servers.Option) *harness {
	return &harness{t, "redis", servers.Redis(t, options...)}
}

func (h *harness) Open(t testing.TB, prefix string) (store.Store, storetest.Link) {
	t.Helper()
	p, err := proxy.Start("tcp", h.server.Addr(), proxy.Classify(proxy.RESP2))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	at := locate(t, h.scheme+"://"+h.server.Addr()+"?prefix="+url.QueryEscape(prefix))
	s, err := redisstore.OpenThrough(t.Context(), at, p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return s, p.Link()
}

func locate(t testing.TB, raw string) store.Location {
	t.Helper()
	at, err := store.ParseLocation(raw)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// openAt opens the store at a URL, which must work.
func openAt(t testing.TB, raw string) *redisstore.Store {
	t.Helper()
	return mustOpen(t, func() (*redisstore.Store, error) { return tryOpen(t, raw) })
}

// slow is how long a sentinel may take to answer, and less than any other server may.
const slow = time.Second

// mustOpen opens a store. Where a server has taken too long to answer, on a machine that is busy, it is asked again.
func mustOpen(t testing.TB, open func() (*redisstore.Store, error)) *redisstore.Store {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		began := time.Now()
		s, err := open()
		if err == nil {
			t.Cleanup(func() { s.Close() })
			return s
		}
		if !mayPass(err) || time.Since(began) < slow || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// tryOpen opens the store at a URL as holdfast.Open does.
func tryOpen(t testing.TB, raw string) (*redisstore.Store, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := store.Open(ctx, locate(t, raw))
	if err != nil {
		return nil, err
	}
	return s.(*redisstore.Store), nil
}

func (h *harness) Advance(d time.Duration) { time.Sleep(d) }

func (h *harness) Restart(keepData bool) error { return h.server.Restart(keepData) }

// Erase runs the script that Leave runs, by hand.
func (h *harness) Erase(name string, id store.ID) error {
	answer, err := h.server.Do("EVAL", redisstore.LeaveText, "1", redisstore.KeysOf("", name)[0], id.String())
	if err == nil && answer != int64(1) {
		err = fmt.Errorf("leave.lua answered %v", answer)
	}
	return err
}

func (h *harness) Residue(name string) (int, error) {
	answer, err := h.server.Do(append([]string{"EXISTS"}, redisstore.KeysOf("", name)...)...)
	if err != nil {
		return 0, err
	}
	return int(answer.(int64)), nil
}

func (h *harness) PlantNewer(name string) error {
	_, err := h.server.Do("SET", redisstore.KeysOf("", name)[0], "2 something of the future")
	return err
}

package redisstore_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness { return newHarness(t) })
}

// A harness is one Redis server, or several that keep locks together.
type harness struct {
	url     string // without a query
	nodes   []*servers.RedisServer
	master  func(key string) (*servers.RedisServer, error)
	restart func(keepData bool) error
	move    func(key string) error // moves a queue to another server before it is touched; nil: it stays
}

// newHarness starts one server.
func newHarness(t testing.TB, options ...servers.Option) *harness {
	t.Helper()
	server := servers.Redis(t, options...)
	return &harness{
		url:     "redis://" + server.Addr(),
		nodes:   []*servers.RedisServer{server},
		master:  func(string) (*servers.RedisServer, error) { return server, nil },
		restart: server.Restart,
	}
}

// newWays makes ways to servers, on which pushes can be told from replies.
func newWays(t testing.TB, nodes []*servers.RedisServer) testkit.Ways {
	t.Helper()
	var addresses []string
	for _, n := range nodes {
		addresses = append(addresses, n.Addr())
	}
	return testkit.NewWays(t, addresses, proxy.Classify(proxy.RESP2))
}

func (h *harness) Open(t testing.TB, prefix string) (store.Store, storetest.Link) {
	t.Helper()
	ways := newWays(t, h.nodes)
	s, err := redisstore.OpenDetour(t.Context(), testkit.Locate(t, h.url+"?prefix="+url.QueryEscape(prefix)),
		ways.Detour)
	testkit.Must(t, err)
	return s, ways.Links()
}

func (h *harness) Advance(d time.Duration) { time.Sleep(d) }

func (h *harness) Restart(keepData bool) error { return h.restart(keepData) }

// do sends a command about a queue to where it is kept.
func (h *harness) do(key string, args ...string) (any, error) {
	master, err := h.master(key)
	if err != nil {
		return nil, err
	}
	return master.Do(args...)
}

// Erase runs the script that Leave runs, by hand.
func (h *harness) Erase(name string, id store.ID) error {
	key := redisstore.KeysOf("", name)[0]
	if h.move != nil {
		if err := h.move(key); err != nil {
			return err
		}
	}
	answer, err := h.do(key, "EVAL", redisstore.LeaveText, "1", key, id.String())
	if err == nil && answer != int64(1) {
		err = fmt.Errorf("leave.lua answered %v", answer)
	}
	return err
}

func (h *harness) Residue(name string) (int, error) {
	keys := redisstore.KeysOf("", name)
	answer, err := h.do(keys[0], append([]string{"EXISTS"}, keys...)...)
	if err != nil {
		return 0, err
	}
	return int(answer.(int64)), nil
}

func (h *harness) PlantNewer(name string) error {
	key := redisstore.KeysOf("", name)[0]
	_, err := h.do(key, "SET", key, "2 something of the future")
	return err
}

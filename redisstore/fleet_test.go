package redisstore_test

import (
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

// A fleet is several servers that keep locks together, as a harness for the suite.
type fleet struct {
	url     string // without a query
	nodes   []*servers.RedisServer
	master  func(key string) (*servers.RedisServer, error)
	restart func(keepData bool) error
	move    func(key string) error // moves a line to another server before it is touched; nil: it stays
}

// ways are a proxy for each server of a fleet.
type ways map[string]*proxy.Proxy

func newWays(t testing.TB, nodes []*servers.RedisServer) ways {
	t.Helper()
	w := ways{}
	for _, n := range nodes {
		p, err := proxy.Start("tcp", n.Addr(), proxy.Classify(proxy.RESP2))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		w[n.Addr()] = p
	}
	return w
}

// detour leads to a server by its proxy. Sentinels have none.
func (w ways) detour(address string) string {
	if p := w[address]; p != nil {
		return p.Addr()
	}
	return address
}

func (f *fleet) Open(t testing.TB, prefix string) (store.Store, storetest.Link) {
	t.Helper()
	w := newWays(t, f.nodes)
	s, err := redisstore.OpenDetour(t.Context(), locate(t, f.url+"?prefix="+url.QueryEscape(prefix)), w.detour)
	if err != nil {
		t.Fatal(err)
	}
	var links fleetLink
	for _, p := range w {
		links = append(links, p.Link())
	}
	return s, links
}

func (f *fleet) Advance(d time.Duration) { time.Sleep(d) }

func (f *fleet) Restart(keepData bool) error { return f.restart(keepData) }

// do sends a command about a line to where it is kept.
func (f *fleet) do(key string, args ...string) (any, error) {
	master, err := f.master(key)
	if err != nil {
		return nil, err
	}
	return master.Do(args...)
}

func (f *fleet) Erase(name string, id store.ID) error {
	keys := redisstore.KeysOf("", name)
	if f.move != nil {
		if err := f.move(keys[0]); err != nil {
			return err
		}
	}
	answer, err := f.do(keys[0], "EVAL", redisstore.LeaveText, "1", keys[0], id.String())
	if err == nil && answer != int64(1) {
		err = fmt.Errorf("leave.lua answered %v", answer)
	}
	return err
}

func (f *fleet) Residue(name string) (int, error) {
	keys := redisstore.KeysOf("", name)
	answer, err := f.do(keys[0], append([]string{"EXISTS"}, keys...)...)
	if err != nil {
		return 0, err
	}
	return int(answer.(int64)), nil
}

func (f *fleet) PlantNewer(name string) error {
	key := redisstore.KeysOf("", name)[0]
	_, err := f.do(key, "SET", key, "2 something of the future")
	return err
}

// awaitTold waits for a push about a claim.
func awaitTold(t testing.TB, told <-chan store.ID, id store.ID, what string) {
	t.Helper()
	for deadline := time.After(patience); ; {
		select {
		case got := <-told:
			if got == id {
				return
			}
		case <-deadline:
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}

// A fleetLink is the links to all servers of a fleet.
type fleetLink []storetest.Link

// all holds something back on all links.
func (l fleetLink) all(hold func(storetest.Link) func()) (release func()) {
	var releases []func()
	for _, link := range l {
		releases = append(releases, hold(link))
	}
	return func() {
		for _, release := range releases {
			release()
		}
	}
}

func (l fleetLink) HoldRequests() (release func()) { return l.all(storetest.Link.HoldRequests) }
func (l fleetLink) HoldReplies() (release func())  { return l.all(storetest.Link.HoldReplies) }
func (l fleetLink) HoldPushes() (release func())   { return l.all(storetest.Link.HoldPushes) }

func (l fleetLink) DropPushes(on bool) {
	for _, link := range l {
		link.DropPushes(on)
	}
}

func (l fleetLink) Cut() {
	for _, link := range l {
		link.Cut()
	}
}

func (l fleetLink) Heal() {
	for _, link := range l {
		link.Heal()
	}
}

func (l fleetLink) Kill() {
	for _, link := range l {
		link.Kill()
	}
}

package consulstore_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/consulstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// The whole suite on one server; or rather on two, which share the rules to take half the time.
func TestStore(t *testing.T) {
	t.Parallel()
	rules := storetest.Rules()
	for name, half := range map[string][]string{"first rules": rules[:4], "other rules": rules[4:]} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.RunSome(t, func(t testing.TB) storetest.Harness {
				server := servers.Consul(t)
				return newHarness(t, server, []string{server.Addr()}, server.Restart)
			}, half...)
		})
	}
}

// What differs on three servers: consistent reads ask a majority, and sessions outlive the leader.
func TestStoreOnThree(t *testing.T) {
	t.Parallel()
	storetest.RunSome(t, func(t testing.TB) storetest.Harness {
		cluster := servers.ConsulCluster(t, 3)
		return newHarness(t, cluster.Nodes[0], cluster.Endpoints(), cluster.Restart)
	}, "exclusion", "order", "truth", "unknown outcomes")
}

// A harness is Consul with a hand on its switches.
type harness struct {
	t         testing.TB
	at        *servers.ConsulServer
	endpoints []string
	restart   func(keepData bool) error
}

func newHarness(
	t testing.TB, at *servers.ConsulServer, endpoints []string, restart func(keepData bool) error,
) *harness {
	t.Helper()
	return &harness{t: t, at: at, endpoints: endpoints, restart: restart}
}

// The ttl of sessions in tests. Consul ends a session after twice that. The suite holds claims for many of its cases,
// and loses them if its renewals come late.
const (
	sessionTTL = 3 * time.Second / 2
	suiteTTL   = 2 * sessionTTL
)

func (h *harness) Open(t testing.TB, prefix string) (store.Store, storetest.Link) {
	t.Helper()
	ways := testkit.NewWays(t, h.endpoints)
	valved := &consulstore.Valved{}
	l := testkit.ValvedLinks{Links: ways.Links(), Valve: &valved.Valve}
	s, err := consulstore.OpenThrough(t.Context(), valved, h.endpoints, ways.Addrs(),
		consulstore.WithPrefix(prefix), consulstore.WithTTL(suiteTTL))
	testkit.Must(t, err)
	return brisk{s}, l
}

// A brisk store promises what holds where no leader has to be found: the suite waits for as long as is promised.
type brisk struct{ *consulstore.Store }

// Abilities implements store.Store.
func (b brisk) Abilities() store.Abilities {
	a := b.Store.Abilities()
	a.TakeoverTTLs, a.TakeoverPlus = 2, time.Second // the second is for a busy machine
	return a
}

func (h *harness) Advance(d time.Duration) { time.Sleep(d) }

func (h *harness) Restart(keepData bool) error { return h.restart(keepData) }

// call makes a request past the proxies.
func (h *harness) call(method, path string, out any) error {
	return h.at.Call(context.Background(), method, path, nil, out)
}

// Erase deletes the key that has the ID.
func (h *harness) Erase(name string, id store.ID) error {
	return h.call(http.MethodDelete, "/v1/kv/"+consulstore.KeyOf(name, id), nil)
}

// Residue counts the keys of the queue.
func (h *harness) Residue(name string) (int, error) {
	var entries []struct{ Value []byte }
	err := h.txn(&entries, map[string]any{"Verb": "get-tree", "Key": consulstore.LineOf(name)})
	return len(entries), err
}

func (h *harness) PlantNewer(name string) error {
	return h.txn(nil, map[string]any{
		"Verb": "set", "Key": consulstore.LineOf(name) + "of-the-future", "Value": []byte("2 of the future"),
	})
}

// txn does one operation, and returns what it has found.
func (h *harness) txn(entries *[]struct{ Value []byte }, op map[string]any) error {
	var result struct {
		Results []struct{ KV struct{ Value []byte } }
	}
	body := []any{map[string]any{"KV": op}}
	err := h.at.Call(context.Background(), http.MethodPut, "/v1/txn", body, &result)
	for _, r := range result.Results {
		if entries != nil {
			*entries = append(*entries, r.KV)
		}
	}
	return err
}

package consulstore_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/consulstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

const (
	// longTTL is that of sessions which must not expire while a test lasts: what is gone was deleted.
	longTTL = 30 * time.Second

	// lastingTTL is that of sessions which must not expire before something happens to them, and are to expire then. A
	// busy machine may be late with a renewal.
	lastingTTL = 2 * sessionTTL

	// soon is within what must happen that does not wait for a ttl, or for a renewal. It is less than a third of longTTL.
	soon = 5 * time.Second
)

// newCluster starts n servers. At the end no key, session or blocking query of a client must be left in them.
func newCluster(t *testing.T, n int, options ...servers.Option) *servers.ConsulServers {
	t.Helper()
	c := servers.ConsulCluster(t, n, options...)
	t.Cleanup(func() {
		for _, node := range c.Nodes {
			testkit.Check(t, node.AwaitHealthy())
		}
		testkit.CheckNothingLeft(t, lastingTTL, func() []string { return leftIn(t, c) })
	})
	return c
}

// leader is the server that leads.
func leader(t testing.TB, c *servers.ConsulServers) *servers.ConsulServer {
	t.Helper()
	node, err := c.Leader()
	testkit.Must(t, err)
	return node
}

// follower is a server that follows.
func follower(t testing.TB, c *servers.ConsulServers) *servers.ConsulServer {
	t.Helper()
	nodes, err := c.Followers()
	testkit.Must(t, err)
	return nodes[0]
}

// storeURL is that of a store.
func storeURL(scheme string, ttl time.Duration, addrs ...string) string {
	return fmt.Sprintf("%s://%s?ttl=%v", scheme, strings.Join(addrs, ","), ttl)
}

// A key is one in Consul.
type key struct {
	Key, Session             string
	CreateIndex, ModifyIndex uint64
}

// keysUnder returns the keys under a prefix, in the order in which they were made. A server that is away is asked again.
func keysUnder(t testing.TB, node *servers.ConsulServer, prefix string) (keys []key) {
	t.Helper()
	var result struct{ Results []struct{ KV key } }
	read := []any{map[string]any{"KV": map[string]string{"Verb": "get-tree", "Key": prefix}}}
	testkit.Await(t, "the keys under "+prefix, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		return node.Call(ctx, http.MethodPut, "/v1/txn?consistent", read, &result) == nil
	})
	for _, r := range result.Results {
		keys = append(keys, r.KV)
	}
	slices.SortFunc(keys, func(a, b key) int { return cmp.Compare(a.CreateIndex, b.CreateIndex) })
	return keys
}

// leftIn returns what there is in the servers, but for the store's identity.
func leftIn(t testing.TB, c *servers.ConsulServers) (left []string) {
	t.Helper()
	for _, k := range keysUnder(t, c.Nodes[0], "holdfast/") {
		if k.Key != "holdfast/id" {
			left = append(left, k.Key)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	var sessions []struct{ Name, Node string }
	testkit.Must(t, c.Nodes[0].Call(ctx, http.MethodGet, "/v1/session/list?consistent", nil, &sessions))
	for _, s := range sessions {
		left = append(left, fmt.Sprintf("session %q of the node %s", s.Name, s.Node))
	}
	for _, node := range c.Nodes {
		queries, err := node.BlockingQueries(ctx)
		testkit.Must(t, err)
		if queries > 0 {
			left = append(left, fmt.Sprint(queries, " blocking queries at ", node.Name()))
		}
	}
	return left
}

// A witness is a journal of one lock in a cluster.
type witness struct {
	*testkit.Journal
	cluster *servers.ConsulServers
}

// newWitness returns the journal of a lock that has the test's name, and another word for another lock of the test.
func newWitness(t *testing.T, c *servers.ConsulServers, word ...string) *witness {
	t.Helper()
	name := strings.Join(append(word, t.Name()), " ")
	return &witness{testkit.NewJournal(t, testkit.Evidence(t), name), c}
}

// open opens a client by URL. Without addresses it knows all servers.
func (w *witness) open(scheme string, ttl time.Duration, addrs ...string) *holdfast.Client {
	w.Helper()
	return w.Open(w.url(scheme, ttl, addrs...))
}

// url is that of a store that knows all servers, or these.
func (w *witness) url(scheme string, ttl time.Duration, addrs ...string) string {
	if len(addrs) == 0 {
		addrs = w.cluster.Endpoints()
	}
	return storeURL(scheme, ttl, addrs...)
}

// wait has a client wait for the lock, behind so many.
func (w *witness) wait(locks *holdfast.Client, behind int) *testkit.Waiter {
	w.Helper()
	next := w.Wait(locks)
	testkit.Await(w, "it waits in the line", func() bool { return len(w.line()) == behind+1 })
	return next
}

// line returns the keys of the lock's line, in their order.
func (w *witness) line() []key {
	w.Helper()
	return keysUnder(w, w.cluster.Nodes[0], consulstore.LineOf(w.Mutex))
}

// call makes a request as an operator does.
func (w *witness) call(method, path string, in any) {
	w.Helper()
	w.Must(w.cluster.Nodes[0].Call(w.Context(), method, path, in, nil))
}

// deleteKey deletes a key as an operator does.
func (w *witness) deleteKey(key string) {
	w.Helper()
	w.call(http.MethodDelete, "/v1/kv/"+key, nil)
}

// mustGrantSoon demands that a waiter is granted the lock at once, and excludes those before it.
func (w *witness) mustGrantSoon(next *testkit.Waiter, before ...*testkit.Hold) {
	w.Helper()
	second, ok := next.GrantedIn(soon)
	if !ok {
		w.Fatalf("the lock is free, and the waiter was not told within %v", soon)
	}
	w.MustExclude(append(before, second)...)
}

// mustHold demands that a lock is held, and not granted to the next.
func (w *witness) mustHold(held *testkit.Hold, next *testkit.Waiter) {
	w.Helper()
	if _, early := next.GrantedIn(0); early || !held.Believed() {
		w.Errorf("the lock was not held all the time: granted to the next is %v, and the lease %v", early, held.Err())
	}
}

package consulstore_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/consulstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
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

// A key is one in Consul.
type key struct {
	Key, Session             string
	CreateIndex, ModifyIndex uint64
}

// keysUnder returns the keys under a prefix, in the order in which they were made. A server that is away is asked
// again.
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
		if !strings.HasSuffix(k.Key, "/id") {
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

// A witness is the journal of one lock in a cluster.
type witness struct {
	*testkit.Witness
	servers *servers.ConsulServers
}

// newWitness returns the journal of a lock that is named after the test, with words before the name for further locks.
func newWitness(t *testing.T, c *servers.ConsulServers, words ...string) *witness {
	t.Helper()
	return &witness{clusterOf(c).NewWitness(t, words...), c}
}

// keys returns the keys of the lock's queue, in their order.
func (w *witness) keys() []key {
	w.Helper()
	return keysUnder(w, w.servers.Nodes[0], consulstore.LineOf(w.Mutex))
}

// call sends a request as an operator does.
func (w *witness) call(method, path string, in any) {
	w.Helper()
	w.Must(w.servers.Nodes[0].Call(w.Context(), method, path, in, nil))
}

// deleteKey deletes a key as an operator does.
func deleteKey(t testing.TB, c *servers.ConsulServers, key string) {
	t.Helper()
	testkit.Must(t, c.Nodes[0].Call(t.Context(), http.MethodDelete, "/v1/kv/"+key, nil, nil))
}

package zkstore_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// newEnsemble starts three servers. At the end no node, watch or session of a client must be left in them. A follower
// that is cut off goes on serving clients for twenty seconds.
func newEnsemble(t *testing.T, tick time.Duration, options ...servers.Option) *servers.ZooKeeperServers {
	t.Helper()
	limit := fmt.Sprint("syncLimit=", int(20*time.Second/tick))
	e := servers.ZooKeeperEnsemble(t, 3, append(options, servers.Tick(tick), servers.Args(limit))...)
	t.Cleanup(func() { nothingIsLeft(t, e) })
	return e
}

// connectTo begins a session past the store, and ends it with the test.
func connectTo(t testing.TB, ttl time.Duration, addrs ...string) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect(addrs, ttl, zk.WithLogger(quiet{}))
	testkit.Must(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range events { // until it has ended
		}
	})
	return conn
}

// A witness is the journal of one lock in an ensemble.
type witness struct {
	*testkit.Witness
	ensemble *servers.ZooKeeperServers
	conn     *zk.Conn // to the leader, past the store and all proxies
}

// newWitness returns the journal of a lock that is named after the test, with words before the name for further locks.
func newWitness(t *testing.T, e *servers.ZooKeeperServers, words ...string) *witness {
	t.Helper()
	leader, err := e.Leader()
	testkit.Must(t, err)
	conn := connectTo(t, lastingTTL, leader.Addr())
	return &witness{clusterOf(e, func() *zk.Conn { return conn }).NewWitness(t, words...), e, conn}
}

// childrenOf returns the paths of the nodes under a path, in the order of their sequence numbers. A connection that was
// closed is tried again.
func childrenOf(t testing.TB, conn *zk.Conn, path string) (paths []string) {
	t.Helper()
	var children []string
	testkit.Await(t, "the nodes under "+path, func() bool {
		_, err := conn.Sync(path)
		if err == nil {
			children, _, err = conn.Children(path)
		}
		return err == nil || errors.Is(err, zk.ErrNoNode)
	})
	slices.SortFunc(children, func(a, b string) int { return cmp.Compare(sequence(a), sequence(b)) })
	for _, child := range children {
		paths = append(paths, path+"/"+child)
	}
	return paths
}

// sequence is the number that the server appends to a node's name.
func sequence(child string) string { return child[max(0, len(child)-10):] }

// deleteNode deletes a node as an operator does.
func (w *witness) deleteNode(path string) {
	w.Helper()
	w.Must(w.conn.Delete(path, -1))
}

// What a server says of itself, of which nothing must be left.
var leftovers = regexp.MustCompile(`(?m)^zk_(watch_count|ephemerals_count)\t(\d+)$|^zk_(global_sessions)\t(\d+)$`)

// nothingIsLeft waits until no node of a queue or a session is left, no watch, and no session. Sessions of clients that
// were killed expire first.
func nothingIsLeft(t testing.TB, e *servers.ZooKeeperServers) {
	t.Helper()
	for _, node := range e.Nodes {
		node.Rejoin()
		testkit.Must(t, node.AwaitHealthy())
	}
	testkit.CheckNothingLeft(t, longTTL, func() []string { return leftIn(t, e) })
}

// leftIn returns what there is in the servers, but for what every store leaves.
func leftIn(t testing.TB, e *servers.ZooKeeperServers) (left []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	for _, node := range e.Nodes {
		said, err := node.Command(ctx, "mntr")
		if err != nil {
			return []string{err.Error()}
		}
		for _, m := range leftovers.FindAllStringSubmatch(said, -1) {
			if count := m[2] + m[4]; count != "0" {
				left = append(left, m[1]+m[3]+" "+count)
			}
		}
	}
	if left != nil {
		return left
	}
	h := &harness{endpoints: e.Endpoints()}
	err := h.do(func(conn *zk.Conn) error {
		left = childrenOf(t, conn, "/holdfast/session")
		for _, line := range childrenOf(t, conn, "/holdfast/line") {
			// The servers keep a container that never had a child: a client made it and met a fault before it could
			// join.
			if _, stat, err := conn.Get(line); err != nil || stat.Cversion > 0 {
				left = append(left, line)
			}
		}
		return nil
	})
	testkit.Must(t, err)
	return left
}

package zkstore_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/zkstore"
)

const (
	// longTTL is that of sessions which must not expire while a test lasts: what is gone was deleted.
	longTTL = 30 * time.Second

	// lastingTTL is that of sessions which must not expire before something happens to them, and are to expire then. A
	// busy machine may be late with a renewal.
	lastingTTL = 3 * sessionTTL

	// soon is within what must happen that does not wait for a ttl, or for a renewal. It is less than a third of longTTL.
	soon = 5 * time.Second
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

// storeURL is that of a store whose servers have the tests' tick.
func storeURL(scheme string, ttl time.Duration, addrs ...string) string {
	return fmt.Sprintf("%s://%s?ttl=%v&tick=%v", scheme, strings.Join(addrs, ","), ttl, tick)
}

// A witness is a journal of one lock in an ensemble.
type witness struct {
	*testkit.Journal
	ensemble *servers.ZooKeeperServers
	conn     *zk.Conn // past the store and all proxies
}

// newWitness returns the journal of a lock that has the test's name, and another word for another lock of the test.
func newWitness(t *testing.T, e *servers.ZooKeeperServers, word ...string) *witness {
	t.Helper()
	name := strings.Join(append(word, t.Name()), " ")
	leader, err := e.Leader()
	testkit.Must(t, err)
	return &witness{testkit.NewJournal(t, testkit.Evidence(t), name), e, connectTo(t, lastingTTL, leader.Addr())}
}

// open opens a client by URL. Without addresses it knows all servers.
func (w *witness) open(scheme string, ttl time.Duration, addrs ...string) *holdfast.Client {
	w.Helper()
	if len(addrs) == 0 {
		addrs = w.ensemble.Endpoints()
	}
	return w.Open(storeURL(scheme, ttl, addrs...))
}

// wait has a client wait for the lock, behind so many.
func (w *witness) wait(locks *holdfast.Client, behind int) *testkit.Waiter {
	w.Helper()
	next := w.Wait(locks)
	testkit.Await(w, "it waits in the line", func() bool { return len(w.line()) == behind+1 })
	return next
}

// line returns the paths of the nodes in the lock's line, in their order.
func (w *witness) line() (paths []string) {
	w.Helper()
	return childrenOf(w, w.conn, zkstore.LinePath("", "", w.Mutex))
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

// mustGrantSoon demands that a waiter is granted the lock at once, and excludes those before it.
func (w *witness) mustGrantSoon(next *testkit.Waiter, before ...*testkit.Hold) {
	w.Helper()
	second, ok := next.GrantedIn(soon)
	if !ok {
		w.Fatalf("the lock is free, and the waiter was not told within %v", soon)
	}
	w.MustExclude(append(before, second)...)
}

// What a server says of itself, of which nothing must be left.
var leftovers = regexp.MustCompile(`(?m)^zk_(watch_count|ephemerals_count)\t(\d+)$|^zk_(global_sessions)\t(\d+)$`)

// nothingIsLeft waits until no node of a line or a session is left, no watch, and no session. Sessions of clients that
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
			// The servers keep a container that never had a child: a client made it and met a fault before it could join.
			if _, stat, err := conn.Get(line); err != nil || stat.Cversion > 0 {
				left = append(left, line)
			}
		}
		return nil
	})
	testkit.Must(t, err)
	return left
}

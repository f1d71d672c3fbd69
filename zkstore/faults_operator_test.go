package zkstore_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// An operator deletes the node of a holder whose session lives on. The holder notices it at once, long before the next
// renewal, and before the next is granted the lock. Its other lock stays. A store that does not listen is seen.
func testTakenAway(t *testing.T, e *servers.ZooKeeperServers) {
	t.Run("noticed", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, e)
		locks := w.open("zk", longTTL)
		other := testkit.Lock(t, locks, w.Mutex+" too")
		held := w.Take(locks)
		w.deleteNode(w.line()[0])
		w.MustLose(held, soon, "")
		w.MustExclude(held, w.Take(w.open("zk", longTTL)))
		if err := other.Err(); err != nil {
			t.Errorf("the client's other lock is lost: %v", err)
		}
		testkit.Unlock(t, other)
	})
	t.Run("a believer is seen", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, e)
		held := w.Take(w.open(believerScheme, longTTL))
		w.deleteNode(w.line()[0])
		w.MustOverlap(w.Take(w.open("zk", longTTL)), held)
	})
}

// An operator deletes the node of a waiter. The waiter joins the line again, behind those that were behind it, and is
// granted the lock in its turn.
func testWaiterTakenAway(t *testing.T, e *servers.ZooKeeperServers) {
	w := newWitness(t, e)
	first := w.Take(w.open("zk", longTTL))
	deleted := w.wait(w.open("zk", longTTL), 1)
	behind := w.wait(w.open("zk", longTTL), 2)
	node := w.line()[1]
	w.deleteNode(node)
	testkit.Await(t, "it has joined again", func() bool { return len(w.line()) == 3 && w.line()[1] != node })
	if _, early := behind.GrantedIn(0); early || !first.Believed() {
		t.Errorf("the lock was passed on, and its holder believes in it: %v", first.Err())
	}
	w.Release(first)
	second, ok := behind.GrantedIn(soon)
	if !ok {
		t.Fatal("the waiter behind the one that was deleted is not granted the lock")
	}
	w.Release(second)
	w.mustGrantSoon(deleted, first, second)
}

// An operator deletes the node of a session. All of its claims are lost, and with them the session: nothing of it stays
// in the servers, and the client goes on with another.
func testSessionTakenAway(t *testing.T, e *servers.ZooKeeperServers) {
	w := newWitness(t, e)
	locks := w.open("zk", lastingTTL)
	held := w.Take(locks)
	node := w.line()[0]
	next := w.wait(w.open("zk", lastingTTL), 1)
	w.deleteNode(w.sessionOf(node))
	second := next.Granted()
	w.MustLose(held, soon, "")
	w.Release(second)
	w.MustExclude(held, second, w.Take(locks))
}

// A client's session expires while it is cut off, and the library comes back with a new one: Curator had a leader that
// stayed leader in its own eyes then. The lease of the old session is lost before the next is granted the lock, and
// stays lost under the new session, in which the client waits like any other.
func testSessionReplaced(t *testing.T, e *servers.ZooKeeperServers) {
	w := newWitness(t, e)
	ways := testkit.NewWays(t, e.Endpoints())
	locks := w.open("zk", lastingTTL, ways.Addrs()...)
	held := w.Take(locks)
	old := w.sessionOf(w.line()[0])
	next := w.wait(w.open("zk", lastingTTL), 1)
	mend := ways.Cut()
	second := next.Granted()
	w.MustLose(held, soon, "")
	mend()
	again := w.wait(locks, 1)
	if renewed := w.sessionOf(w.line()[1]); renewed == old {
		t.Errorf("the session %s was not replaced", old)
	}
	if err := held.Err(); err == nil || held.Believed() {
		t.Error("the lease of the old session came back")
	}
	w.Release(second)
	w.MustExclude(held, second, again.Granted())
}

// The servers are away for longer than a session, and come back with it: a new leader gives each its whole timeout
// again. The client has begun another by then, and finds a node in the line that it made itself: Curator took such a
// node of an old session for its own. The store waits until the servers have expired it.
func testOldSession(t *testing.T, e *servers.ZooKeeperServers) {
	w := newWitness(t, e)
	w.conn = connectTo(t, lastingTTL, e.Endpoints()...)
	locks := w.open("zk", lastingTTL)
	held := w.Take(locks)
	node := w.line()[0]
	for _, server := range e.Nodes {
		w.Must(server.Kill())
	}
	w.MustLose(held, testkit.Patience, "")
	time.Sleep(lastingTTL / 2) // until the client has given the session up
	for _, server := range e.Nodes {
		w.Must(server.Start())
	}
	for _, server := range e.Nodes {
		w.Must(server.AwaitHealthy())
	}
	if line := w.line(); len(line) == 0 || line[0] != node {
		t.Fatalf("the servers have not kept the old session: %v", line)
	}
	again := w.Take(locks)
	if line := w.line(); len(line) != 1 || line[0] == node {
		t.Errorf("the lock was granted while the line is %v, and %s was the old session's", line, node)
	}
	w.MustExclude(held, again)
}

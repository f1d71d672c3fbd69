package zkstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// An operator deletes the node of a session. All of its claims are lost, and with them the session: nothing of it stays
// in the servers, and the client goes on with another.
func testSessionNodeDeleted(t *testing.T, e *servers.ZooKeeperServers) {
	w := newWitness(t, e)
	locks := w.OpenLasting()
	held := w.Take(locks)
	node := w.Queue()[0]
	next := w.WaitBehind(1, w.OpenLasting())
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
	locks := w.OpenLasting(ways.Addrs()...)
	held := w.Take(locks)
	old := w.sessionOf(w.Queue()[0])
	next := w.WaitBehind(1, w.OpenLasting())
	mend := ways.Cut()
	second := next.Granted()
	w.MustLose(held, soon, "")
	mend()
	again := w.WaitBehind(1, locks)
	if renewed := w.sessionOf(w.Queue()[1]); renewed == old {
		t.Errorf("the session %s was not replaced", old)
	}
	if err := held.Err(); err == nil || held.Believed() {
		t.Error("the lease of the old session came back")
	}
	w.Release(second)
	w.MustExclude(held, second, again.Granted())
}

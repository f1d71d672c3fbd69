package zkstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
)

// Faults of single clients, played by an exact schedule on servers that are well. Those of the servers follow.
func TestClientFaults(t *testing.T) {
	t.Parallel()
	e := newEnsemble(t, tick)
	t.Run("servers are well", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *servers.ZooKeeperServers){
			"cut off":                testCutOff,
			"killed":                 testKilledHolder,
			"stopped":                testStoppedHolder,
			"lost response":          testLostResponse,
			"late request":           testLateRequest,
			"held node deleted":      testTakenAway,
			"waiting node deleted":   testWaiterTakenAway,
			"session replaced":       testSessionReplaced,
			"session's node deleted": testSessionTakenAway,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, e)
			})
		}
	})
	t.Run("servers restarted one after another", func(t *testing.T) { testRestartWhileWaiting(t, e) })
	t.Run("node of an old session", func(t *testing.T) { testOldSession(t, e) })
}

// Servers are started again one after another while a client waits. The lock stays held, and when it is released, the
// waiter is told at once: not by the next renewal, which would be later.
func testRestartWhileWaiting(t *testing.T, e *servers.ZooKeeperServers) {
	w := newWitness(t, e)
	w.conn = connectTo(t, lastingTTL, e.Endpoints()...)
	first := w.Take(w.open("zk", longTTL))
	next := w.wait(w.open("zk", longTTL), 1)
	w.Must(restartEach(e))
	if _, early := next.GrantedIn(0); early || !first.Believed() {
		t.Errorf("the lock was not held through the restart: %v", first.Err())
	}
	w.Release(first)
	w.mustGrantSoon(next, first)
}

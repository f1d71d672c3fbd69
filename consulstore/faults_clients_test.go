package consulstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
)

// Faults of single clients and agents, played by an exact schedule on servers that are well. Those of the servers
// follow.
func TestClientFaults(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	t.Run("servers are well", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *servers.ConsulServers){
			"cut off":               testCutOff,
			"killed":                testKilledHolder,
			"stopped":               testStoppedHolder,
			"lost response":         testLostResponse,
			"late request":          testLateRequest,
			"session destroyed":     testSessionDestroyed,
			"session's key deleted": testSessionKeyDeleted,
			"held key deleted":      testTakenAway,
			"waiting key deleted":   testWaiterTakenAway,
			"node deregistered":     testNodeDeregistered,
			"agent restarted":       testAgentRestarted,
			"health critical":       testHealthCritical,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, c)
			})
		}
	})
	t.Run("servers restarted one after another", func(t *testing.T) { testRestartWhileWaiting(t, c) })
	t.Run("key of an old session", func(t *testing.T) { testOldSession(t, c) })
}

// Servers are started again one after another while a client waits. The lock stays held, and when it is released, the
// waiter is told at once: not by the next renewal, which would be later.
func testRestartWhileWaiting(t *testing.T, c *servers.ConsulServers) {
	w := newWitness(t, c)
	first := w.Take(w.open("consul", longTTL))
	next := w.wait(w.open("consul", longTTL), 1)
	w.Must(restartEach(c))
	w.mustHold(first, next)
	w.Release(first)
	w.mustGrantSoon(next, first)
}

package zkstore_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// Faults of single clients, played by an exact schedule on healthy servers. Those of the servers follow.
func TestClientFaults(t *testing.T) {
	t.Parallel()
	e := newEnsemble(t, tick)
	shared := clusterOf(e, func() *zk.Conn { return connectTo(t, lastingTTL, e.Endpoints()...) })
	t.Run("servers are healthy", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *servers.ZooKeeperServers){
			"cut off": func(t *testing.T, _ *servers.ZooKeeperServers) { shared.TestCutOff(t, nil) },
			"killed":  func(t *testing.T, _ *servers.ZooKeeperServers) { testKilledHolder(shared.NewWitness(t)) },
			"stopped": func(t *testing.T, _ *servers.ZooKeeperServers) { shared.TestStoppedHolder(t, nil) },
			"held node deleted": func(t *testing.T, _ *servers.ZooKeeperServers) {
				shared.TestHeldClaimDeleted(t, longTTL, soon) // noticed long before the next renewal
			},
			"waiting node deleted": func(t *testing.T, _ *servers.ZooKeeperServers) {
				shared.TestWaitingClaimDeleted(t, longTTL)
			},
			"lost response":          testLostResponse,
			"late request":           testLateRequest,
			"session replaced":       testSessionReplaced,
			"session's node deleted": testSessionNodeDeleted,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, e)
			})
		}
	})
	t.Run("servers restarted one after another", shared.TestRestartWhileWaiting)
	t.Run("node of an old session", func(t *testing.T) {
		// Curator took the node of an old session for its own. The servers start when the client has given that session
		// up.
		shared.TestOldSession(t, func() { time.Sleep(lastingTTL / 2) })
	})
}

// A process that holds a lock is killed. The next claim is granted it when the session has expired, and within the time
// that Abilities promises. A request was sent about a third of the ttl before, or somewhat earlier on a busy machine.
func testKilledHolder(w *testkit.Witness) {
	w.TestKilledHolder(testkit.Takeover{TTL: lastingTTL, Least: lastingTTL / 4, Most: w.Promised(lastingTTL)})
}

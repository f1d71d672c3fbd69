package consulstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// Faults of single clients and agents, played by an exact schedule on healthy servers. Those of the servers follow.
func TestClientFaults(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	shared := clusterOf(c)
	t.Run("servers are healthy", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *servers.ConsulServers){
			"cut off": func(t *testing.T, _ *servers.ConsulServers) { shared.TestCutOff(t, nil) },
			"killed":  testKilledHolder,
			"stopped": func(t *testing.T, _ *servers.ConsulServers) { shared.TestStoppedHolder(t, nil) },
			"held key deleted": func(t *testing.T, _ *servers.ConsulServers) {
				shared.TestHeldClaimDeleted(t, lastingTTL, lastingTTL) // noticed by the next renewal
			},
			"waiting key deleted": func(t *testing.T, _ *servers.ConsulServers) {
				shared.TestWaitingClaimDeleted(t, lastingTTL)
			},
			"lost response":         testLostResponse,
			"late request":          testLateRequest,
			"session destroyed":     testSessionDestroyed,
			"session's key deleted": testSessionKeyDeleted,
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
	t.Run("servers restarted one after another", shared.TestRestartWhileWaiting)
	t.Run("key of an old session", func(t *testing.T) { shared.TestOldSession(t, func() {}) })
}

// A process that holds a lock is killed. Consul ends its session when twice the ttl has passed since the last renewal,
// which was sent up to a third of the ttl before.
func testKilledHolder(t *testing.T, c *servers.ConsulServers) {
	clusterOf(c).NewWitness(t).TestKilledHolder(testkit.Takeover{
		TTL: lastingTTL, Least: lastingTTL, Most: 2*lastingTTL + soon,
	})
}

package etcdstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
)

// TestRestartWhileWaiting starts servers again while somebody waits. The lock stays held, and when it is released, the
// one who waits is told at once: not by the next renewal, which would be later.
func TestRestartWhileWaiting(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		restart func(*servers.EtcdServers) error
	}{
		{"one after the other", func(c *servers.EtcdServers) error {
			for _, node := range c.Nodes {
				if err := node.Kill(); err != nil {
					return err
				}
				if err := node.Start(); err != nil {
					return err
				}
				if err := node.AwaitHealthy(); err != nil {
					return err
				}
			}
			return nil
		}},
		{"all at once", func(c *servers.EtcdServers) error { return c.Restart(true) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cluster := newCluster(t)
			w := newWitness(t, cluster)
			first := w.Take(w.OpenLong())
			next := w.WaitBehind(1, w.OpenLong())
			w.Must(test.restart(cluster))
			if _, early := next.GrantedIn(0); early || !first.Believed() {
				t.Errorf("the lock was not held through the restart: %v", first.Err())
			}
			w.Release(first)
			w.mustGrantSoon(next, first)
		})
	}
}

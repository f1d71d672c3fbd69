package etcdstore_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
)

// One member of three stands still, and nobody closes its connections. A busy client goes on with the other two.
func TestSilentMinority(t *testing.T) {
	t.Parallel()
	w := newWitness(t, servers.EtcdCluster(t, 3))
	locks := w.OpenAt("etcd", 10*time.Second)
	leader, err := w.cluster.Leader()
	w.Must(err)
	for _, node := range w.cluster.Nodes {
		if node != leader {
			w.Must(node.Pause())
			break
		}
	}
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for range 10 {
				lease, err := locks.Mutex(fmt.Sprint("own ", i)).Lock(t.Context())
				if err == nil {
					err = lease.Unlock(t.Context())
				}
				if err != nil {
					t.Errorf("one of three servers is silent: %v", err)
				}
			}
		})
	}
	all.Wait()
}

package etcdstore_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// writeLate implements testkit.LateWriter: it writes on condition that etcd has the claim of the lease.
func writeLate(at string, lease *holdfast.Lease) (write func() (written bool, err error), err error) {
	guard, err := etcdstore.Held(lease)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(at)
	if err != nil {
		return nil, err
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(u.Host, ","), Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	return func() (bool, error) {
		put := clientv3.OpPut(lease.Name(), "a late write")
		response, err := client.Txn(context.Background()).If(guard).Then(put).Commit()
		if err != nil {
			return false, err
		}
		return response.Succeeded, nil
	}, nil
}

// TestStoppedHolder stops the process that holds a lock for longer than its lease, and resumes it. It sees the loss.
// Its late write is rejected by a fence, and by etcd itself.
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	clusterOf(cluster, cluster.Client(t)).TestStoppedHolder(t, func(t *testing.T, h *testkit.Holder) {
		if h.WriteLate() {
			t.Error("etcd has carried out a late write")
		}
	})
}

// TestKilledHolder kills the process that holds a lock. The next claim is granted when the ttl has passed, and within
// the time that Abilities promises, also if etcd's leader is killed just before it would have expired the lease: the
// new one counts the ttl from the beginning. The lease was renewed about a third of the ttl before, or somewhat earlier
// on a busy machine.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, newCluster(t))
		w.TestKilledHolder(testkit.Takeover{TTL: lastingTTL, Least: lastingTTL / 4, Most: w.Promised(lastingTTL)})
	})
	t.Run("and the leader", func(t *testing.T) {
		t.Parallel()
		const ttl = 2 * sessionTTL
		w := newWitness(t, newCluster(t))
		w.TestKilledHolder(testkit.Takeover{TTL: ttl, Least: ttl / 4, Most: w.Promised(ttl), Also: func() {
			leader, err := w.cluster.Leader()
			w.Must(err)
			time.Sleep(ttl / 2) // the leader has counted in vain
			w.Must(leader.Kill())
		}})
	})
}

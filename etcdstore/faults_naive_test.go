package etcdstore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// A naive lock is a key under a lease, written by the client that finds that there is none. It makes the usual
// mistakes: it counts its lease from when the answer came, and takes a request that was not responded to for one that
// was not done. It lies in a queue's place, so that tests see it where they look for claims.
type naive struct {
	client *clientv3.Client
	key    string
	lease  clientv3.LeaseID
	ttl    time.Duration
	until  atomic.Pointer[time.Time]
}

func newNaive(t *testing.T, endpoints []string, key string, ttl time.Duration, options ...grpc.DialOption) *naive {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop(), DialOptions: options})
	testkit.Must(t, err)
	n := &naive{client: client, key: key, ttl: ttl}
	t.Cleanup(func() { client.Close() })
	granted, err := client.Grant(t.Context(), int64(ttl/time.Second))
	testkit.Must(t, err)
	n.lease = granted.ID
	n.received()
	t.Cleanup(func() {
		ctx, cancel := patience()
		defer cancel()
		_, _ = client.Revoke(ctx, n.lease) // if it is still there
	})
	return n
}

// take asks for the lock until it has it.
func (n *naive) take(ctx context.Context) error {
	for {
		answer, err := n.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(n.key), "=", 0)).
			Then(clientv3.OpPut(n.key, "", clientv3.WithLease(n.lease))).
			Commit()
		if err != nil || answer.Succeeded {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// renew renews its lease.
func (n *naive) renew(ctx context.Context) error {
	_, err := n.client.KeepAliveOnce(ctx, n.lease)
	if err == nil {
		n.received()
	}
	return err
}

func (n *naive) received() {
	until := time.Now().Add(n.ttl)
	n.until.Store(&until)
}

// leave gives the lock back.
func (n *naive) leave(ctx context.Context) error {
	_, err := n.client.Delete(ctx, n.key)
	return err
}

func (n *naive) believes() bool { return time.Now().Before(*n.until.Load()) }

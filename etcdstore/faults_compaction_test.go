package etcdstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// TestCompaction compacts etcd's history while somebody waits. A watch that began before it, has to be resumed over it,
// or lags so far behind that what it has yet to be sent is gone, loses nobody's turn. One who is not told is seen.
func TestCompaction(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	t.Run("while a claim waits", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, cluster)
		first := w.Take(w.OpenLong())
		next := w.WaitBehind(1, w.OpenLong())
		w.write(200)
		w.compact()
		w.Release(first)
		w.mustGrantSoon(next, first)
	})
	t.Run("while the watch is cut off", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, cluster)
		ways := testkit.NewWays(t, cluster.Endpoints())
		first := w.Take(w.OpenLong())
		next := w.WaitBehind(1, w.OpenLong(ways.Addrs()...))
		mend := ways.Cut()
		w.write(100)
		w.Release(first)
		w.write(100)
		w.compact()
		mend()
		w.mustGrantSoon(next, first)
	})
	// etcd keeps nothing for a watch that lags so far. It ends it when that is compacted.
	t.Run("of what a watch has yet to be sent", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, cluster)
		lease, err := w.OpenLong().Semaphore(w.Mutex, 2).Acquire(t.Context(), 2)
		w.Must(err)
		valve, ear := newValve(), &ear{}
		slow := w.openThrough(cluster.Endpoints(), longTTL, grpc.WithInitialWindowSize(64<<10),
			grpc.WithChainStreamInterceptor(ear.intercept, valve.intercept))
		granted := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), testkit.ScenePatience)
			defer cancel()
			_, err := slow.Semaphore(w.Mutex, 2).Acquire(ctx, 1) // it watches the whole queue
			granted <- err
		}()
		testkit.Await(t, "it waits in the line", func() bool { return len(w.Queue()) == 2 })
		release := valve.hold()
		w.overwhelm()
		w.write(10)
		w.compact()
		release()
		testkit.Await(t, "the compaction has ended a watch", func() bool { return ear.compacted.Load() > 0 })
		w.Must(lease.Unlock(t.Context()))
		select {
		case err := <-granted:
			w.Must(err)
		case <-time.After(soon):
			t.Error("the lock was given back, and the next has not got it")
		}
	})
	t.Run("one who is not told is seen", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, cluster)
		valve := newValve()
		first := w.Take(w.OpenLong())
		next := w.WaitBehind(1,
			w.openThrough(cluster.Endpoints(), longTTL, grpc.WithChainStreamInterceptor(valve.intercept)))
		release := valve.hold()
		w.Release(first)
		if _, granted := next.GrantedIn(soon / 5); granted {
			t.Error("nobody is told of anything, and the lock is granted")
		}
		release()
		w.mustGrantSoon(next, first)
	})
}

// mustGrantSoon demands that the one who waits gets the lock before a renewal would tell it.
func (w *witness) mustGrantSoon(next *testkit.Waiter, before *testkit.Hold) {
	w.Helper()
	began := time.Now()
	held, granted := next.GrantedIn(soon)
	if !granted {
		w.Fatalf("the lock was given back, and %v later the next has not got it", soon)
	}
	w.Logf("granted after %v", time.Since(began))
	w.MustExclude(before, held)
}

// write makes revisions. What it wrote is gone at the end.
func (w *witness) write(n int) {
	w.Helper()
	key := w.Mutex + "/written"
	for i := range n {
		_, err := w.client.Put(w.Context(), key, fmt.Sprint(i))
		w.Must(err)
	}
	_, err := w.client.Delete(w.Context(), key)
	w.Must(err)
}

// compact makes etcd forget all but the present.
func (w *witness) compact() {
	w.Helper()
	answer, err := w.client.Get(w.Context(), "compact")
	w.Must(err)
	_, err = w.client.Compact(w.Context(), answer.Header.Revision, clientv3.WithCompactPhysical())
	if err != nil && !strings.Contains(err.Error(), "compacted") { // by another of these tests, at this very revision
		w.Fatal(err)
	}
}

// overwhelm writes the holder's claim, as it is but with blanks behind it, until a server finds that a watch of it does
// not follow.
func (w *witness) overwhelm() {
	w.Helper()
	answer, err := w.client.Get(w.Context(), etcdstore.LineKey(w.Mutex), clientv3.WithPrefix(), clientv3.WithLimit(1),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	w.Must(err)
	key, value := string(answer.Kvs[0].Key), string(answer.Kvs[0].Value)+strings.Repeat(" ", 8<<10)
	testkit.Await(w, "a watch lags", func() bool {
		for range 50 {
			_, err := w.client.Put(w.Context(), key, value, clientv3.WithIgnoreLease())
			w.Must(err)
		}
		for _, node := range w.cluster.Nodes {
			metrics, err := node.Metrics()
			w.Must(err)
			if metrics["etcd_debugging_mvcc_slow_watcher_total"] > 0 {
				return true
			}
		}
		return false
	})
}

// An ear hears what watches are told, and counts those that were ended because of a compaction.
type ear struct{ compacted atomic.Int32 }

// intercept is for grpc.WithChainStreamInterceptor.
func (e *ear) intercept(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, conn, method, options...)
	return &heard{stream, e}, err
}

type heard struct {
	grpc.ClientStream
	*ear
}

// RecvMsg receives, and listens.
func (h *heard) RecvMsg(m any) error {
	err := h.ClientStream.RecvMsg(m)
	if r, ok := m.(*etcdserverpb.WatchResponse); ok && err == nil && r.Canceled && r.CompactRevision > 0 {
		h.compacted.Add(1)
	}
	return err
}

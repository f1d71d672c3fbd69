package etcdstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

const (
	// longTTL, lastingTTL and soon are those of testkit.Cluster.
	longTTL    = 30 * time.Second
	lastingTTL = 3 * sessionTTL
	soon       = testkit.SoonAfter
)

// emptyIn says whether nobody is in the queue, now or in so long.
func (w *witness) emptyIn(d time.Duration) bool {
	w.Helper()
	for deadline := time.Now().Add(d); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if len(w.Queue()) == 0 {
			return true
		}
	}
	return false
}

// mustStayEmpty demands that nobody comes to is in the queue, for a moment.
func (w *witness) mustStayEmpty() {
	w.Helper()
	for end := time.Now().Add(soon / 20); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if line := w.Queue(); len(line) != 0 {
			w.Fatalf("a Join has landed after it was taken back: %v", line)
		}
	}
}

// A sessionKey is the key of a client's session. It is written when a Join is taken back that may still come.
type sessionKey string

// sessionOf is that of a client, who takes the lock for a moment to show it.
func (w *witness) sessionOf(locks *holdfast.Client) sessionKey {
	w.Helper()
	held := w.Take(locks)
	answer, err := w.client.Get(w.Context(), w.Queue()[0])
	w.Must(err)
	w.Release(held)
	return sessionKey(fmt.Sprintf("holdfast//session/%016x", answer.Kvs[0].Lease))
}

// written is the revision at which a session was last written.
func (w *witness) written(session sessionKey) int64 {
	w.Helper()
	ctx, cancel := patience()
	defer cancel()
	answer, err := w.client.Get(ctx, string(session))
	w.Must(err)
	if len(answer.Kvs) == 0 {
		w.Fatal("the session is over")
	}
	return answer.Kvs[0].ModRevision
}

// giveUp has a client ask for the lock, in vain.
func (w *witness) giveUp(ctx context.Context, locks *holdfast.Client) {
	w.Helper()
	if lease, err := locks.Mutex(w.Mutex).Lock(ctx); err == nil {
		w.Errorf("the lock with token %v was granted over a connection that brings no answers", lease.Token())
	}
}

// TestUnknownJoin has Joins end whose callers do not know what became of them.
//
// The answer to one that etcd has done is lost: its caller gets an error, and nobody is blocked by what it does not
// know of. Another is on its way until its caller has given up and it was taken back: when it arrives, nothing comes of
// it, ever. A naive lock is seen to block in both.
func TestUnknownJoin(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	t.Run("answer lost", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, cluster)
		ways := testkit.NewWays(t, cluster.Endpoints())
		locks := w.openThrough(ways.Addrs(), longTTL)
		w.loseAnswer(ways, func(ctx context.Context) { w.giveUp(ctx, locks) })
		if !w.emptyIn(soon) {
			t.Errorf("a claim that nobody knows of stands in the line: %v", w.Queue())
		}
		held := w.Take(w.openThrough(cluster.Endpoints(), longTTL))
		w.Release(held)
		w.MustExclude(held, w.Take(locks))
	})
	t.Run("answer lost, naive lock", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, cluster)
		ways := testkit.NewWays(t, cluster.Endpoints())
		n := newNaive(t, ways.Addrs(), etcdstore.LineKey(w.Mutex)+"naive", longTTL)
		w.loseAnswer(ways, func(ctx context.Context) {
			if n.take(ctx) == nil {
				t.Error("it got an answer")
			}
		})
		if w.emptyIn(soon / 5) {
			t.Error("what nobody takes out is gone")
		}
	})
	t.Run("request late, one server silent", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, cluster)
		ways := testkit.NewWays(t, cluster.Endpoints())
		locks := w.openThrough(ways.Addrs(), 4*sessionTTL) // a shorter one asks another server sooner
		session := w.sessionOf(locks)
		release := ways.Proxies[0].Hold(proxy.Requests)
		w.untilSilence(locks, session, func() bool { return ways.Proxies[0].Held(proxy.Requests) > 0 })
		before := handled(t, cluster.Nodes[0].Metrics)
		release()
		testkit.Await(t, "what was late has arrived",
			func() bool { return handled(t, cluster.Nodes[0].Metrics) > before })
		w.mustStayEmpty()
		w.MustExclude(w.Take(locks))
	})
	t.Run("request late", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, cluster)
		f := &ferry{}
		locks := w.openThrough(cluster.Endpoints(), longTTL, grpc.WithChainUnaryInterceptor(f.intercept))
		session := w.sessionOf(locks)
		before := w.written(session)
		f.set(func(int) fate { return delayed })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.giveUp(ctx, locks)
		testkit.Await(t, "the Join is taken back", func() bool { return w.written(session) > before })
		if n := f.land(t); n != 0 {
			t.Errorf("%d Joins were done after they were taken back", n)
		}
		w.mustStayEmpty()
		w.MustExclude(w.Take(locks))
	})
	t.Run("request late, naive lock", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, cluster)
		f := &ferry{}
		n := newNaive(t, cluster.Endpoints(), etcdstore.LineKey(w.Mutex)+"naive", longTTL,
			grpc.WithChainUnaryInterceptor(f.intercept))
		f.set(func(int) fate { return delayed })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if n.take(ctx) == nil {
			t.Error("it got an answer")
		}
		w.Must(n.leave(t.Context()))
		if f.land(t) == 0 || len(w.Queue()) == 0 {
			t.Error("what was late is not there")
		}
	})
}

// loseAnswer lets a request land, loses its answer, and repairs the ways when the caller has given up.
func (w *witness) loseAnswer(ways testkit.Ways, ask func(context.Context)) {
	w.Helper()
	ways.Hold(proxy.Down)
	ctx, cancel := context.WithTimeout(w.Context(), testkit.ScenePatience)
	defer cancel()
	var asking sync.WaitGroup
	asking.Go(func() { ask(ctx) })
	testkit.Await(w, "the request has landed", func() bool { return len(w.Queue()) == 1 })
	ways.Cut()
	cancel()
	asking.Wait()
	ways.Heal()
}

// untilSilence asks for the lock until a Join meets the silent server, which has something kept back then, and was
// taken back. The client sends each request to the next server, and to another if it is not responded to: so it may be
// granted the lock nevertheless.
func (w *witness) untilSilence(locks *holdfast.Client, session sessionKey, keptBack func() bool) {
	w.Helper()
	for try := range 20 {
		for range try % 3 { // otherwise it might always be an Unlock that meets it
			_, err := locks.Inspect(w.Context(), w.Mutex)
			w.Must(err)
		}
		before := w.written(session)
		ctx, cancel := context.WithTimeout(w.Context(), 300*time.Millisecond)
		lease, err := locks.Mutex(w.Mutex).Lock(ctx)
		cancel()
		if err != nil {
			testkit.Await(w, "the Join is taken back",
				func() bool { return w.written(session) > before && len(w.Queue()) == 0 })
		} else {
			w.Must(lease.Unlock(w.Context()))
		}
		if w.written(session) > before && keptBack() {
			return
		}
	}
	w.Fatal("no Join has met the silent server")
}

// handled is how many transactions a server is done with, well or not.
func handled(t *testing.T, metrics func() (map[string]float64, error)) (total float64) {
	t.Helper()
	all, err := metrics()
	testkit.Must(t, err)
	for series, value := range all {
		if strings.HasPrefix(series, "grpc_server_handled_total{") && strings.Contains(series, `grpc_method="Txn"`) {
			total += value
		}
	}
	return total
}

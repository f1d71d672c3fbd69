package etcdstore_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// longTTL is that of sessions which must not run out while a test lasts: what is gone was taken out.
const longTTL = 30 * time.Second

// lastingTTL is that of sessions which must not run out before something happens to them, and are to run out then. A machine
// that is busy may be late with a renewal, or etcd with choosing a leader.
const lastingTTL = 3 * sessionTTL

// soon is within what must happen that does not wait for a ttl, or for a renewal. It is less than a third of longTTL.
const soon = 5 * time.Second

// emptyIn says whether nobody stands in the line, now or in so long.
func (w *witness) emptyIn(d time.Duration) bool {
	w.Helper()
	for deadline := time.Now().Add(d); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if len(w.line()) == 0 {
			return true
		}
	}
	return false
}

// mustStayEmpty demands that nobody comes to stand in the line, for a moment.
func (w *witness) mustStayEmpty() {
	w.Helper()
	for end := time.Now().Add(soon / 20); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if line := w.line(); len(line) != 0 {
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
	answer, err := w.client.Get(w.Context(), w.line()[0])
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
// The answer to one that etcd has done is lost: its caller gets an error, and nobody is blocked by what it does not know of.
// Another is on its way until its caller has given up and it was taken back: when it arrives, nothing comes of it, ever. A
// naive lock is seen to block in both.
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
			t.Errorf("a claim that nobody knows of stands in the line: %v", w.line())
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
		testkit.Await(t, "what was late has arrived", func() bool { return handled(t, cluster.Nodes[0].Metrics) > before })
		w.mustStayEmpty()
		w.MustExclude(w.Take(locks))
	})
	t.Run("request late", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, cluster)
		post := &slowPost{to: etcdstore.LineKey(w.Mutex)}
		locks := w.openThrough(cluster.Endpoints(), longTTL, grpc.WithChainUnaryInterceptor(post.intercept))
		session := w.sessionOf(locks)
		before := w.written(session)
		post.slow(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.giveUp(ctx, locks)
		testkit.Await(t, "the Join is taken back", func() bool { return w.written(session) > before })
		if n := post.deliver(t); n != 0 {
			t.Errorf("%d Joins were done after they were taken back", n)
		}
		w.mustStayEmpty()
		post.slow(false)
		w.MustExclude(w.Take(locks))
	})
	t.Run("request late, naive lock", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, cluster)
		post := &slowPost{to: etcdstore.LineKey(w.Mutex)}
		n := newNaive(t, cluster.Endpoints(), post.to+"naive", longTTL, grpc.WithChainUnaryInterceptor(post.intercept))
		post.slow(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if n.take(ctx) == nil {
			t.Error("it got an answer")
		}
		w.Must(n.leave(t.Context()))
		if post.deliver(t) == 0 || len(w.line()) == 0 {
			t.Error("what was late is not there")
		}
	})
}

// loseAnswer lets a request land, loses its answer, and mends the ways when the caller has given up.
func (w *witness) loseAnswer(ways testkit.Ways, ask func(context.Context)) {
	w.Helper()
	ways.Hold(proxy.Down)
	ctx, cancel := context.WithTimeout(w.Context(), testkit.ScenePatience)
	defer cancel()
	var asking sync.WaitGroup
	asking.Go(func() { ask(ctx) })
	testkit.Await(w, "the request has landed", func() bool { return len(w.line()) == 1 })
	ways.Cut()
	cancel()
	asking.Wait()
	ways.Heal()
}

// untilSilence asks for the lock until a Join meets the silent server, which has something kept back then, and was taken back.
// The client sends each request to the next server, and to another if it is not answered: so it may be granted the lock
// nevertheless.
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
			testkit.Await(w, "the Join is taken back", func() bool { return w.written(session) > before && len(w.line()) == 0 })
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

// slowPost is a network that keeps back what would be written under a key, until its callers have given up. With bytes one
// cannot do it for certain: a caller who gives up sends that, too, and etcd may hear both at once.
type slowPost struct {
	to string

	mu    sync.Mutex
	slows bool
	kept  []func() (done bool, err error)
}

func (p *slowPost) slow(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slows = on
}

// intercept is for grpc.WithChainUnaryInterceptor.
func (p *slowPost) intercept(ctx context.Context, method string, request, answer any, conn *grpc.ClientConn,
	send grpc.UnaryInvoker, options ...grpc.CallOption) error {
	txn, ok := request.(*etcdserverpb.TxnRequest)
	if !ok || !p.keep(txn, func() (bool, error) {
		late, cancel := patience()
		defer cancel()
		var answer etcdserverpb.TxnResponse
		err := send(late, method, request, &answer, conn)
		return answer.Succeeded, err
	}) {
		return send(ctx, method, request, answer, conn, options...)
	}
	<-ctx.Done()
	return status.FromContextError(ctx.Err()).Err()
}

// keep keeps a transaction back if it is to be.
func (p *slowPost) keep(txn *etcdserverpb.TxnRequest, send func() (bool, error)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, op := range txn.Success {
		if put := op.GetRequestPut(); p.slows && put != nil && bytes.HasPrefix(put.Key, []byte(p.to)) {
			p.kept = append(p.kept, send)
			return true
		}
	}
	return false
}

// deliver sends what was kept back, and says how much of it was done. There must be something.
func (p *slowPost) deliver(t *testing.T) (done int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.kept) == 0 {
		t.Error("nothing was kept back")
	}
	for _, send := range p.kept {
		did, err := send()
		if err != nil {
			t.Errorf("what is late is not heard: %v", err)
		}
		if did {
			done++
		}
	}
	p.kept = nil
	return done
}

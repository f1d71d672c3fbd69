package zkstore_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/zkstore"
)

// A Join is carried out and its response is lost: its caller gets an error, and no claim is blocked by the node that it
// does not know of. A naive lock leaves its node there.
func testLostResponse(t *testing.T, e *servers.ZooKeeperServers) {
	t.Run("store", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, e)
		ways := testkit.NewWays(t, e.Endpoints())
		locks := w.OpenLong(ways.Addrs()...)
		inUse := func() { w.Release(w.Take(locks)) }
		w.loseResponse(ways, inUse, func(ctx context.Context) { w.giveUp(ctx, locks) })
		testkit.Await(t, "the node that no claim knows of is deleted", func() bool { return len(w.Queue()) == 0 })
		held := w.Take(w.OpenLong())
		w.Release(held)
		w.MustExclude(held, w.Take(locks))
	})
	t.Run("naive lock", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, e)
		ways := testkit.NewWays(t, e.Endpoints())
		n := w.naiveInLine(ways)
		w.loseResponse(ways, func() { w.awaitConnected(n) }, func(context.Context) {
			if n.join() == nil {
				t.Error("it got a response")
			}
		})
		if len(w.Queue()) != 1 {
			t.Error("the node that nothing deletes is gone")
		}
	})
}

// A request to join is on its way until its caller has given up, its client has turned to another server, and the claim
// was made void there. When it arrives, nothing comes of it, ever. That of a naive lock, whose caller has given up too,
// makes a node.
func testLateRequest(t *testing.T, e *servers.ZooKeeperServers) {
	t.Run("store", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, e)
		ways := testkit.NewWays(t, e.Endpoints())
		locks := w.OpenAt("zk", 10*time.Second, ways.Addrs()...)
		held := w.Take(locks)
		session := w.sessionOf(w.Queue()[0])
		w.Release(held)
		before := w.version(session)
		at := ways.Proxies[slices.IndexFunc(ways.Proxies, func(p *proxy.Proxy) bool { return p.Connections() > 0 })]
		release := at.Hold(proxy.Requests)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		w.giveUp(ctx, locks)
		testkit.Await(t, "the Join is made void", func() bool { return w.version(session) > before })
		if at.Held(proxy.Requests) == 0 {
			t.Error("nothing was kept back")
		}
		release()
		w.mustStayEmpty()
		w.MustExclude(w.Take(locks))
	})
	t.Run("naive lock", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, e)
		ways := testkit.NewWays(t, e.Endpoints())
		n := w.naiveInLine(ways)
		release := ways.Hold(proxy.Requests)
		var joining sync.WaitGroup
		joining.Go(func() { _ = n.join() }) // nobody waits for it
		testkit.Await(t, "the request is on its way", func() bool { return ways.Held(proxy.Requests) > 0 })
		release()
		testkit.Await(t, "what was late has landed", func() bool { return len(w.Queue()) == 1 })
		joining.Wait()
	})
}

// loseResponse lets a request land, loses its response, and repairs the ways when the caller has given up. On a busy
// machine the request may be made void before it is seen: then it tries again, once the client is connected as before.
func (w *witness) loseResponse(ways testkit.Ways, awaitConnected func(), join func(context.Context)) {
	w.Helper()
	for range 5 {
		awaitConnected()
		if w.losesResponse(ways, join) {
			return
		}
	}
	w.Fatal("no request was seen in the queue before its client gave up")
}

// losesResponse does so once, and reports whether the request was seen in the queue.
func (w *witness) losesResponse(ways testkit.Ways, join func(context.Context)) (seen bool) {
	w.Helper()
	ways.Hold(proxy.Down)
	ctx, cancel := context.WithTimeout(w.Context(), testkit.ScenePatience/5)
	defer cancel()
	joined := make(chan struct{})
	go func() {
		defer close(joined)
		join(ctx)
	}()
	testkit.Await(w, "the request has landed, or its caller has given up", func() bool {
		select {
		case <-joined:
			return true
		default:
			seen = len(w.Queue()) == 1
			return seen
		}
	})
	ways.Cut()
	cancel()
	<-joined
	ways.Heal()
	return seen || len(w.Queue()) == 1 // it may have landed just before its caller gave up
}

// giveUp has a client ask for the lock, in vain.
func (w *witness) giveUp(ctx context.Context, locks *holdfast.Client) {
	w.Helper()
	if lease, err := locks.Mutex(w.Mutex).Lock(ctx); err == nil {
		w.Errorf("the lock with token %v was granted without a response", lease.Token())
	}
}

// mustStayEmpty demands that no claim comes to is in the queue, for a moment.
func (w *witness) mustStayEmpty() {
	w.Helper()
	for end := time.Now().Add(soon / 10); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if line := w.Queue(); len(line) != 0 {
			w.Fatalf("a Join has landed after it was made void: %v", line)
		}
	}
}

// naiveInLine returns a naive lock whose nodes lie in the lock's queue, so that tests see them where they look for
// claims.
func (w *witness) naiveInLine(ways testkit.Ways) *naive {
	w.Helper()
	w.OpenLong() // there are queues
	line := zkstore.LinePath("", "", w.Mutex)
	_, err := w.conn.CreateContainer(line, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
	w.Must(err)
	n := &naive{conn: connectTo(w, lastingTTL, ways.Addrs()...), line: line, ttl: lastingTTL}
	w.awaitConnected(n)
	return n
}

func (w *witness) awaitConnected(n *naive) {
	w.Helper()
	testkit.Await(w, "the naive lock is connected", func() bool {
		_, _, err := n.conn.Exists(n.line)
		return err == nil
	})
}

// sessionOf returns the path of the node of the session that has a claim's node.
func (w *witness) sessionOf(node string) string {
	w.Helper()
	_, stat, err := w.conn.Get(node)
	w.Must(err)
	return fmt.Sprintf("/holdfast/session/%016x", uint64(stat.EphemeralOwner)) //nolint:gosec // for a name
}

// version returns how often a node was written.
func (w *witness) version(path string) int32 {
	w.Helper()
	_, stat, err := w.conn.Get(path)
	w.Must(err)
	return stat.Version
}

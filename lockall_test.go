package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// all returns a LockAll that begin can start. It stores the result in m.
func all(m **holdfast.MultiLease, parts ...holdfast.Part) locker {
	return func(ctx context.Context) (_ *holdfast.Lease, err error) {
		*m, err = holdfast.LockAll(ctx, parts...)
		return nil, err
	}
}

func TestLockAllIsAllOrNothing(t *testing.T) {
	for _, taken := range []string{"a", "b", "c"} {
		scene(t, taken, func(t *testing.T, r *rig) {
			other := r.lock(r.client(holdfast.WithLabel("nightly")).Mutex(taken).Lock)
			ctx := r.within(time.Minute)
			began := time.Now()
			m, err := holdfast.LockAll(ctx, mutexes(r.client(), "c", "a", "b")...)
			var locked *holdfast.LockedError
			if m != nil || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, holdfast.ErrLocked) ||
				!errors.As(err, &locked) {
				t.Fatalf("got %v, %v", m, err)
			}
			if locked.Name != taken || locked.Holder.Label != "nightly" || locked.Token != other.Token() ||
				time.Since(began) != time.Minute {
				t.Errorf("after %v: %+v", time.Since(began), locked)
			}
			synctest.Wait()
			for _, name := range []string{"a", "b", "c"} {
				if name != taken {
					r.free(name)
				}
			}
			if other.Err() != nil {
				t.Errorf("the other lost it: %v", other.Err())
			}
			r.unlock(other)
			r.nothingRemains("a", "b", "c")
		})
	}
}

// TestLockAllFailsWithOneReason: the error is about the lock that was not acquired, in one line.
func TestLockAllFailsWithOneReason(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.lock(r.client().Mutex("c").Lock)
		_, err := holdfast.LockAll(t.Context(), r.client().Mutex("a"), r.client().Mutex("b"),
			r.client().Mutex("c", holdfast.WithWait(time.Second)))
		if err == nil || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "unlock") ||
			!strings.Contains(err.Error(), `"c"`) {
			t.Fatalf("it reads %v", err)
		}
	})
}

func TestLockAllCancelled(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.lock(r.client().Mutex("b").Lock)
		why := errors.New("the user went away")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		_, err := holdfast.LockAll(ctx, mutexes(r.client(), "a", "b")...)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, why) || errors.Is(err, holdfast.ErrLocked) {
			t.Fatalf("got %v", err)
		}
		synctest.Wait()
		r.free("a")
		if _, err := holdfast.LockAll(ctx, mutexes(r.client(), "c", "d")...); !errors.Is(err, context.Canceled) {
			t.Fatalf("with a context that is done: %v", err)
		}
		r.nothingRemains("a", "c", "d")
	})
}

// TestLockAllNeverDeadlocks: whatever the order of the arguments, over two servers, by many goroutines of several
// processes. Everybody holds for long enough that deadlocks are searched for, and none may be reported.
func TestLockAllNeverDeadlocks(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		const processes, goroutines, rounds, names = 3, 6, 4, 3
		servers := []*rig{r, {t, memstore.NewServer()}}
		ctx := r.within(24 * time.Hour)
		var inside [2][names]atomic.Int32
		var wg sync.WaitGroup
		for p := range processes {
			clients := []*holdfast.Client{servers[0].client(), servers[1].client()}
			for g := range goroutines {
				chance := rand.New(rand.NewPCG(uint64(p), uint64(g)))
				wg.Go(func() {
					for range rounds {
						var parts []holdfast.Part
						var counts []*atomic.Int32
						for _, i := range chance.Perm(2 * names)[:2+chance.IntN(2*names-1)] {
							parts = append(parts, clients[i%2].Mutex(fmt.Sprint(i/2)))
							counts = append(counts, &inside[i%2][i/2])
						}
						m, err := holdfast.LockAll(ctx, parts...)
						if err != nil {
							t.Error(err)
							return
						}
						for _, n := range counts {
							if n.Add(1) != 1 {
								t.Error("two hold one")
							}
						}
						time.Sleep(time.Duration(chance.Int64N(int64(2 * time.Second))))
						for _, n := range counts {
							n.Add(-1)
						}
						r.check(m.Unlock(ctx))
					}
				})
			}
		}
		wg.Wait()
		for _, s := range servers {
			s.nothingRemains("0", "1", "2")
		}
	})
}

func TestLockAllReversed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		ctx := r.within(time.Hour)
		names := []string{"a", "b", "c", "d"}
		var wg sync.WaitGroup
		for range 2 {
			parts := mutexes(r.client(), names...)
			slices.Reverse(names)
			for range 20 {
				wg.Go(func() {
					m, err := holdfast.LockAll(ctx, parts...)
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Second)
					r.check(m.Unlock(ctx))
				})
			}
		}
		began := time.Now()
		wg.Wait()
		if d := time.Since(began); d > 41*time.Second {
			t.Errorf("40 that hold for a second each took %v", d)
		}
		r.nothingRemains(names...)
	})
}

// TestLockAllOrdersTenants: the same name of two tenants of one server is two locks, and these too are taken in one
// order by every process.
func TestLockAllOrdersTenants(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		tenant := func(prefix string) *holdfast.Client {
			c := holdfast.New(r.server.Connect(memstore.WithPrefix(prefix)))
			r.Cleanup(func() { c.Close() })
			return c
		}
		held := r.lock(tenant("one/").Mutex("x").Lock)
		firsts := map[bool]int{}
		for range 20 { // as many processes
			one, two := tenant("one/"), tenant("two/")
			var m *holdfast.MultiLease
			wait := r.begin(all(&m, one.Mutex("x"), two.Mutex("x")))
			queue, err := two.Inspect(t.Context(), "x")
			if err != nil {
				t.Fatal(err)
			}
			firsts[len(queue.Entries) > 0]++
			wait.end()
			synctest.Wait()
		}
		if len(firsts) != 1 {
			t.Errorf("the second tenant's came first for %d of 20 processes: two of them can wait for each other",
				firsts[true])
		}
		r.unlock(held)
	})
}

// TestLockAllOfOneLockByTwoClients: a lock that is named twice is taken once, also if two clients of one store name it.
func TestLockAllOfOneLockByTwoClients(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.client(), r.client()
		var m *holdfast.MultiLease
		twice := r.begin(all(&m, a.RWMutex("x").Reader(), b.Mutex("x")))
		r.pass(time.Minute)
		if !twice.done() || twice.err != nil {
			t.Fatalf("it waits for itself: %v, or has failed: %v", !twice.done(), twice.err)
		}
		queue, err := a.Inspect(t.Context(), "x")
		if err != nil || len(queue.Entries) != 1 || queue.Entries[0].Units != store.MaxReaders {
			t.Fatalf("the queue is %+v, %v", queue, err)
		}
		if token := queue.Entries[0].Token; m.Tokens()[0] != token || m.Tokens()[1] != token {
			t.Errorf("the tokens are %v, want %v", m.Tokens(), token)
		}
		r.check(m.Unlock(t.Context()))
		r.nothingRemains("x")
	})
}

func TestLockAllMixed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, other := r.client(), r.client()
		pool := func(c *holdfast.Client) *holdfast.Semaphore { return c.Semaphore("pool", 5) }
		m := r.lockAll(c.Mutex("mutex"), c.RWMutex("write"), c.RWMutex("read").Reader(), pool(c).Units(3))
		for i, shared := range []bool{false, false, true, true} {
			if token := m.Tokens()[i]; token.Shared() != shared {
				t.Errorf("token %d is shared: %v", i, token.Shared())
			}
		}
		tryThree := func(ctx context.Context) (*holdfast.Lease, error) { return pool(other).TryAcquire(ctx, 3) }
		r.refused("the mutex", other.Mutex("mutex").TryLock, holdfast.ErrLocked)
		r.refused("reading beside the writer", other.RWMutex("write").TryRLock, holdfast.ErrLocked)
		r.refused("writing beside the reader", other.RWMutex("read").TryLock, holdfast.ErrLocked)
		r.refused("three of five beside three", tryThree, holdfast.ErrLocked)
		second := r.lockAll(other.RWMutex("read").Reader(), pool(other).Units(2)) // there is room for these
		for _, m := range []*holdfast.MultiLease{m, second} {
			r.check(m.Unlock(t.Context()))
		}
		r.nothingRemains("mutex", "write", "read", "pool")
	})
}

func TestLockAllOverTwoServers(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		here, there := r, &rig{t, memstore.NewServer()}
		a, b := here.client(), there.client()
		m := r.lockAll(a.Mutex("x"), b.Mutex("x"), a.Mutex("y"), b.Mutex("y"))
		for _, c := range []*holdfast.Client{here.client(), there.client()} {
			for _, name := range []string{"x", "y"} {
				if _, err := c.Mutex(name).TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		there.server.Restart(false) // one of two stores is enough
		synctest.Wait()
		if m.Context().Err() == nil || !errors.Is(m.Err(), holdfast.ErrLost) {
			t.Errorf("it says %v", m.Err())
		}
		if err := m.Unlock(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock: %v", err)
		}
		here.free("x", "y")
		there.free("x", "y")
		here.nothingRemains("x", "y")
		there.nothingRemains("x", "y")
	})
}

func TestLockAllDuplicates(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, n := r.counted()
		x := c.RWMutex("x")
		pool := c.Semaphore("pool", 5)
		for what, test := range map[string]struct {
			parts  []holdfast.Part
			name   string
			units  int
			shared bool
		}{
			"mutex twice":         {[]holdfast.Part{c.Mutex("x"), c.Mutex("x")}, "x", store.MaxReaders, false},
			"mutex and writer":    {[]holdfast.Part{c.Mutex("x"), x}, "x", store.MaxReaders, false},
			"write and read":      {[]holdfast.Part{x, x.Reader()}, "x", store.MaxReaders, false},
			"read and write":      {[]holdfast.Part{x.Reader(), x}, "x", store.MaxReaders, false},
			"read twice":          {[]holdfast.Part{x.Reader(), x.Reader()}, "x", 1, true},
			"units are added":     {[]holdfast.Part{pool.Units(2), pool.Units(1)}, "pool", 3, true},
			"units up to the sum": {[]holdfast.Part{pool.Units(2), pool.Units(2), pool.Units(1)}, "pool", 5, true},
		} {
			joins, leaves := n.joins.Load(), n.leaves.Load()
			m := r.lockAll(append(test.parts, c.Mutex("other"))...)
			queue, err := c.Inspect(t.Context(), test.name)
			if err != nil || len(queue.Holders()) != 1 || queue.Entries[0].Units != test.units {
				t.Fatalf("%s: the queue is %+v, %v", what, queue, err)
			}
			tokens := m.Tokens()
			if len(tokens) != len(test.parts)+1 || tokens[0].Shared() != test.shared {
				t.Errorf("%s: the tokens are %v", what, tokens)
			}
			for i := range test.parts {
				if tokens[i] != queue.Entries[0].Token {
					t.Errorf("%s: token %d is %v, want %v", what, i, tokens[i], queue.Entries[0].Token)
				}
			}
			r.check(m.Unlock(t.Context()))
			if j, l := n.joins.Load()-joins, n.leaves.Load()-leaves; j != 2 || l != 2 {
				t.Errorf("%s: %d joins and %d leaves of two locks", what, j, l)
			}
		}
	})
}

func TestLockAllBadInput(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var none context.Context
		ctx := t.Context()
		c, n := r.counted()
		x, pool := c.Mutex("x"), c.Semaphore("y", 5)
		for what, bad := range map[string]struct {
			ctx   context.Context
			parts []holdfast.Part
			want  error
		}{
			"no parts":    {ctx, nil, holdfast.ErrBadOption},
			"nil part":    {ctx, []holdfast.Part{x, nil}, holdfast.ErrBadOption},
			"nil context": {none, []holdfast.Part{x}, holdfast.ErrNilContext},
			"bad name":    {ctx, mutexes(c, "x", ""), holdfast.ErrBadName},
			"bad option": {ctx, []holdfast.Part{x, c.Mutex("y", holdfast.WithWait(-1))},
				holdfast.ErrBadOption},
			"bad ttl": {ctx, []holdfast.Part{x, c.RWMutex("y", holdfast.WithTTL(-1)).Reader()},
				holdfast.ErrBadTTL},
			"no units":                {ctx, []holdfast.Part{x, pool.Units(0)}, holdfast.ErrBadUnits},
			"too many units":          {ctx, []holdfast.Part{x, pool.Units(6)}, holdfast.ErrBadUnits},
			"too many units together": {ctx, []holdfast.Part{x, pool.Units(3), pool.Units(3)}, holdfast.ErrBadUnits},
			"bad limit":               {ctx, []holdfast.Part{x, c.Semaphore("y", 0).Units(1)}, holdfast.ErrBadUnits},
			"two kinds":               {ctx, []holdfast.Part{x, c.Mutex("y"), pool.Units(1)}, holdfast.ErrMismatch},
			"two limits": {ctx, []holdfast.Part{x, c.Semaphore("y", 4).Units(1), pool.Units(1)},
				holdfast.ErrMismatch},
		} {
			m, err := holdfast.LockAll(bad.ctx, bad.parts...)
			if m != nil || !errors.Is(err, bad.want) {
				t.Errorf("%s: got %v, %v, want %v", what, m, err, bad.want)
				continue
			}
			if !strings.HasPrefix(err.Error(), "holdfast: lock all: ") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: it reads %q", what, err)
			}
		}
		if n.joins.Load() != 0 {
			t.Errorf("%d were joined", n.joins.Load())
		}
	})
}

func TestLockAllOfAClosedClient(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		open, closed := r.client(), r.client()
		closed.Close()
		if _, err := holdfast.LockAll(t.Context(), open.Mutex("a"), closed.Mutex("b")); !errors.Is(err,
			holdfast.ErrClosed) {
			t.Fatalf("got %v", err)
		}
		r.free("a")
		m := r.lockAll(open.Mutex("a"), r.client().Mutex("b"))
		open.Close()
		if m.Context().Err() == nil || !errors.Is(m.Err(), holdfast.ErrClosed) ||
			!errors.Is(context.Cause(m.Context()), holdfast.ErrClosed) {
			t.Fatalf("it says %v", m.Err())
		}
		if err := m.Unlock(t.Context()); !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("Unlock: %v", err)
		}
		r.free("a", "b")
	})
}

func TestLockAllMismatchInTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		r.lock(r.client().Mutex("b").Lock)
		if _, err := holdfast.LockAll(t.Context(), c.Mutex("a"), c.Semaphore("b", 5).Units(1)); !errors.Is(err,
			holdfast.ErrMismatch) {
			t.Fatalf("got %v", err)
		}
		r.free("a")
	})
}

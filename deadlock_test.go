package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// TestThreePartyDeadlock: over two clients and two kinds of resource, it is reported once, with its cycle, and the
// others go on.
func TestThreePartyDeadlock(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a := r.client(holdfast.WithLabel("a"))
		b := r.client(holdfast.WithLabel("b"))
		pool := func(c *holdfast.Client) *holdfast.Semaphore { return c.Semaphore("pool", 2) }

		one := r.lock(a.Mutex("x").Lock)                                  // 1 has x, wants y
		two := r.lock(b.RWMutex("y", holdfast.WithLabel("reader")).RLock) // 2 reads y, wants the pool
		three := r.lock(units(pool(a), 2))                                // 3 has the pool, wants x
		calls := []*call{
			r.begin(under(one, a.RWMutex("y").Lock)),
			r.begin(under(two, units(pool(b), 1))),
			r.begin(under(three, a.Mutex("x").Lock)),
		}
		leases := []*holdfast.Lease{one, two, three}
		r.pass(2 * time.Second)
		victim := -1
		for i, c := range calls {
			if !c.done() {
				continue
			}
			var deadlock *holdfast.DeadlockError
			if victim >= 0 || !errors.Is(c.err, holdfast.ErrDeadlock) || !errors.As(c.err, &deadlock) ||
				len(deadlock.Cycle) != 3 {
				t.Fatalf("%d got %v", i+1, c.err)
			}
			victim = i
			for _, word := range []string{`waits for "x"`, `waits for "y"`, `waits for "pool"`, "reader on",
				"holds since 2000-"} {
				if !strings.Contains(c.err.Error(), word) {
					t.Errorf("%q does not say %s", c.err, word)
				}
			}
		}
		if victim < 0 {
			t.Fatal("it was not found within two seconds")
		}
		// The victim releases what it holds, and the others acquire their locks one after the other.
		r.unlock(leases[victim])
		for i := (victim + 2) % 3; i != victim; i = (i + 2) % 3 {
			if synctest.Wait(); !calls[i].holds() {
				t.Fatalf("%d does not go on after %d gave way", i+1, victim+1)
			}
			r.unlock(calls[i].lease)
			r.unlock(leases[i])
		}
		r.nothingRemains("x")
		r.nothingRemains("pool")
	})
}

// pair makes two owners that each hold one lock and want the other's.
func (r *rig) pair(options ...holdfast.Option) (leases [2]*holdfast.Lease, calls [2]*call) {
	a, b := r.client(), r.client()
	leases = [2]*holdfast.Lease{r.lock(a.Mutex("x").Lock), r.lock(b.Mutex("y").Lock)}
	calls = [2]*call{
		r.begin(under(leases[0], a.Mutex("y", options...).Lock)),
		r.begin(under(leases[1], b.Mutex("x", options...).Lock)),
	}
	return leases, calls
}

func TestNoDeadlockCheck(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		leases, calls := r.pair(holdfast.WithoutDeadlockCheck())
		r.pass(time.Minute)
		if calls[0].done() || calls[1].done() {
			t.Fatal("there was a search")
		}
		r.unlock(leases[0])
		r.holds(calls[1], "it was no deadlock")
	})
}

// TestCancelledWaitLeavesNoPhantom: an edge that was written for a wait that has ended must not close a cycle.
func TestCancelledWaitLeavesNoPhantom(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.client(), r.client()
		x, y := r.lock(a.Mutex("x").Lock), r.lock(b.Mutex("y").Lock)
		wait := r.begin(under(x, a.Mutex("y").Lock))
		r.pass(time.Second) // its edge is written
		wait.end()
		synctest.Wait()
		other := r.begin(under(y, b.Mutex("x").Lock)) // no cycle: no owner waits for y any more
		r.pass(5 * time.Second)
		r.waits(other, "a phantom closed a cycle")
		r.unlock(x)
		r.holds(other, "it does not go on")
	})
}

// TestDeadlockThroughHandOver: a claim that passes from goroutine to goroutine has the edges of its holder of the
// moment.
func TestDeadlockThroughHandOver(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.client(), r.client()
		first := r.lock(a.Mutex("x").Lock)
		second := r.begin(a.Mutex("x").Lock)
		r.unlock(first)
		if synctest.Wait(); !second.holds() || second.lease.Token().Ticket() != first.Token().Ticket() {
			t.Fatal("it was not handed over")
		}
		y := r.lock(b.Mutex("y").Lock)
		calls := []*call{r.begin(under(second.lease, a.Mutex("y").Lock)), r.begin(under(y, b.Mutex("x").Lock))}
		r.pass(2 * time.Second)
		if calls[0].done() == calls[1].done() {
			t.Fatal("it was not found")
		}
	})
}

// TestOrderedLocksRaiseNoAlarm: owners that take their locks in one order never deadlock, however long they wait,
// so no owner may get a DeadlockError.
func TestOrderedLocksRaiseNoAlarm(t *testing.T) {
	for seed := range uint64(50) {
		bubble(t, func(t *testing.T, r *rig) {
			chance := rand.New(rand.NewPCG(seed, 0))
			clients := []*holdfast.Client{r.client(), r.client(), r.client()}
			var wg sync.WaitGroup
			for i := range 9 {
				names := chance.Perm(4)[:2+chance.IntN(3)]
				slices.Sort(names)
				c, hold := clients[i%3], time.Duration(chance.Int64N(int64(3*time.Second)))
				wg.Go(func() {
					if err := nest(t.Context(), c, names, hold); err != nil {
						t.Errorf("seed %d: %v", seed, err)
					}
				})
			}
			wg.Wait()
		})
	}
}

// nest takes locks one under the other, and works.
func nest(ctx context.Context, c *holdfast.Client, names []int, work time.Duration) error {
	if len(names) == 0 {
		time.Sleep(work)
		return nil
	}
	inner := func(ctx context.Context) error { return nest(ctx, c, names[1:], work) }
	switch name := fmt.Sprint("lock ", names[0]); {
	case names[0] == 3:
		l, err := c.Semaphore(name, 3).Acquire(ctx, 1+int(work)%3)
		if err != nil {
			return err
		}
		return errors.Join(inner(l.Context()), l.Unlock(ctx))
	case work%2 == 0:
		return c.RWMutex(name).RDo(ctx, inner)
	default:
		return c.Mutex(name).Do(ctx, inner)
	}
}

// TestUnorderedLocksAreUntied: owners that take their locks in any order deadlock all the time. Each time one gives
// way, and in the end all are through.
func TestUnorderedLocksAreUntied(t *testing.T) {
	deadlocks := 0
	for seed := range uint64(20) {
		bubble(t, func(t *testing.T, r *rig) {
			chance := rand.New(rand.NewPCG(seed, 0))
			clients := []*holdfast.Client{r.client(), r.client()}
			var mu sync.Mutex
			var wg sync.WaitGroup
			for i := range 6 {
				names, c := chance.Perm(4)[:3], clients[i%2]
				pause := time.Duration(1+i) * 100 * time.Millisecond
				wg.Go(func() {
					for try := range 200 {
						err := nest(t.Context(), c, names, time.Second+time.Duration(i))
						if err == nil {
							return
						}
						if !errors.Is(err, holdfast.ErrDeadlock) {
							t.Errorf("seed %d: %v", seed, err)
							return
						}
						mu.Lock()
						deadlocks++
						mu.Unlock()
						time.Sleep(pause << min(try, 6))
					}
					t.Errorf("seed %d: it never got through", seed)
				})
			}
			wg.Wait()
		})
	}
	if deadlocks == 0 {
		t.Fatal("there was none: the test shows nothing")
	}
}

// TestVictimDoesNotDependOnTheFirstSearch: two clients deadlock, and the waiting claim with the larger ID gives
// way, whichever began to look earlier. Otherwise two that look at the same time could both give way.
func TestVictimDoesNotDependOnTheFirstSearch(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		clients := [2]*holdfast.Client{r.client(), r.client()}
		own := [2]string{"x", "y"}
		queues := r.server.Connect()
		defer queues.Close()
		waits := func(name string) []byte {
			queue, err := queues.Queue(t.Context(), name)
			if err != nil || len(queue.Entries) != 2 {
				t.Fatalf("%v, %v", queue, err)
			}
			return queue.Entries[1].ID[:]
		}
		for round := range 16 {
			first := round % 2 // the owner that begins to wait, and to search, earlier
			var leases [2]*holdfast.Lease
			for i, c := range clients {
				leases[i] = r.lock(c.Mutex(own[i]).Lock)
			}
			var calls [2]*call
			for _, i := range []int{first, 1 - first} {
				calls[i] = r.begin(under(leases[i], clients[i].Mutex(own[1-i]).Lock))
				r.pass(150 * time.Millisecond)
			}
			r.pass(100 * time.Millisecond) // the second has looked once, and seen it
			if calls[0].done() || calls[1].done() {
				t.Fatal("what was seen once may have been no more than queues read at different times")
			}
			victim := 0
			if bytes.Compare(waits(own[0]), waits(own[1])) > 0 { // the claim that waits for x is that of the second
				victim = 1
			}
			r.pass(2 * time.Second)
			if !calls[victim].done() || calls[1-victim].done() {
				t.Fatal("one should have given way: the one with the larger ID")
			}
			if !errors.Is(calls[victim].err, holdfast.ErrDeadlock) {
				t.Fatalf("got %v", calls[victim].err)
			}
			r.unlock(leases[victim])
			synctest.Wait()
			r.unlock(calls[1-victim].lease)
			r.unlock(leases[1-victim])
			synctest.Wait()
		}
	})
}

// TestStoreWithoutAQueueIsNotSearchedForDeadlocks.
func TestStoreWithoutAQueueIsNotSearchedForDeadlocks(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		d := &detour{can: func(a *store.Abilities) { a.Queue = false }}
		c := r.around(d)
		r.lock(r.client().Mutex("y").Lock)
		r.begin(under(r.lock(c.Mutex("x").Lock), c.Mutex("y").Lock))
		r.pass(ttl)
		if d.looks.Load() != 0 {
			t.Fatalf("%d queues were read of a store that has none", d.looks.Load())
		}
	})
}

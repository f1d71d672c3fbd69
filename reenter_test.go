package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
)

func TestTakenAgainWithoutTheOptionIsAnErrorAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		ctx := r.lock(c.Mutex("x").Lock).Context()
		for what, lock := range map[string]locker{
			"Lock": c.Mutex("x").Lock, "TryLock": c.Mutex("x").TryLock,
			"RLock": c.RWMutex("x").RLock, "Campaign": c.Election("x").Campaign,
		} {
			if _, err := lock(ctx); !errors.Is(err, holdfast.ErrReentered) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := c.Mutex("y").TryLock(ctx); err != nil {
			t.Errorf("another lock: %v", err)
		}
		reader := r.lock(c.RWMutex("z").RLock)
		if _, err := c.RWMutex("z").RLock(reader.Context()); !errors.Is(err, holdfast.ErrReentered) {
			t.Errorf("a reader that reads again: %v", err)
		}
		r.refused("from elsewhere", c.Mutex("x").TryLock, holdfast.ErrLocked)
	})
}

func TestReentrantCountsAndPaysNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, n := r.counted()
		m := c.Mutex("x", holdfast.Reentrant())
		outer := r.lock(m.Lock)
		inner := r.lease(m.Lock(outer.Context()))
		reader := r.lease(c.RWMutex("x", holdfast.Reentrant()).RLock(inner.Context()))
		if n.joins.Load() != 1 || n.keeps.Load() != 0 {
			t.Fatalf("%d joins, %d keeps", n.joins.Load(), n.keeps.Load())
		}
		if inner.Token() != outer.Token() || reader.Token() != outer.Token() {
			t.Fatalf("the tokens are %v, %v and %v", outer.Token(), inner.Token(), reader.Token())
		}
		// In whatever order they are given back, the claim leaves with the last.
		waiter := r.begin(r.client().Mutex("x").Lock)
		r.unlock(outer)
		r.unlock(reader)
		if synctest.Wait(); waiter.done() || inner.Err() != nil || outer.Err() == nil || inner.Context().Err() != nil {
			t.Fatalf("inner %v, outer %v", inner.Err(), outer.Err())
		}
		r.pass(5 * ttl)
		if inner.Err() != nil || waiter.done() {
			t.Fatal("it is not renewed any more")
		}
		r.unlock(inner)
		if synctest.Wait(); !waiter.holds() || n.leaves.Load() != 1 {
			t.Fatalf("%d leaves", n.leaves.Load())
		}
		if err := inner.Unlock(t.Context()); !errors.Is(err, holdfast.ErrNotHeld) {
			t.Fatalf("unlocked twice: %v", err)
		}
	})
}

func TestReaderReentersAroundAQueuedWriter(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.client().RWMutex("x", holdfast.Reentrant())
		outer := r.lock(m.RLock)
		writer := r.begin(r.client().RWMutex("x").Lock)
		inner := r.lease(m.RLock(outer.Context()))
		if _, err := m.Lock(inner.Context()); !errors.Is(err, holdfast.ErrUpgrade) {
			t.Fatalf("from read to write: %v", err)
		}
		r.unlock(outer)
		r.unlock(inner)
		r.holds(writer, "the writer did not get it")
	})
}

func TestSemaphoreReentrance(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		plain, reentrant := c.Semaphore("pool", 5), c.Semaphore("pool", 5, holdfast.Reentrant())
		three := r.lock(units(plain, 3))
		if l, err := plain.TryAcquire(three.Context(), 2); err != nil {
			t.Errorf("what can be granted is not re-entrance: %v", err)
		} else {
			r.unlock(l)
		}
		if _, err := plain.Acquire(three.Context(), 3); !errors.Is(err, holdfast.ErrReentered) {
			t.Errorf("what can never be granted: %v", err)
		}
		if l, err := reentrant.Acquire(three.Context(), 3); err != nil {
			t.Errorf("within what it has: %v", err)
		} else {
			r.unlock(l)
		}
		if _, err := reentrant.Acquire(three.Context(), 4); !errors.Is(err, holdfast.ErrUpgrade) {
			t.Errorf("more than it has: %v", err)
		}
		if _, err := c.Semaphore("pool", 6, holdfast.Reentrant()).TryAcquire(three.Context(), 3); !errors.Is(err, holdfast.ErrMismatch) {
			t.Errorf("of another limit: %v", err)
		}
		if three.Err() != nil {
			t.Fatal(three.Err())
		}
	})
}

func TestReentranceIsOfTheLiveLeaseOnly(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		m := c.Mutex("x", holdfast.Reentrant())
		l := r.lock(m.Lock)
		ctx := context.WithoutCancel(l.Context())
		r.unlock(l)
		other := r.lock(r.client().Mutex("x").Lock)
		if _, err := m.TryLock(ctx); !errors.Is(err, holdfast.ErrLocked) {
			t.Fatalf("a lease that is over let it in: %v", err)
		}
		r.unlock(other)
		r.unlock(r.lock(m.TryLock))
	})
}

func TestLossEndsEveryLeaseOfTheClaim(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.client().Mutex("x", holdfast.Reentrant())
		outer := r.lock(m.Lock)
		inner := r.lease(m.Lock(outer.Context()))
		done := inner.Context().Done()
		r.server.Restart(false)
		r.pass(time.Second)
		<-done
		for _, l := range []*holdfast.Lease{outer, inner} {
			if !errors.Is(l.Err(), holdfast.ErrLost) || !errors.Is(l.Unlock(t.Context()), holdfast.ErrLost) {
				t.Errorf("it says %v", l.Err())
			}
		}
	})
}

func TestReenteredLockIsNotDowngraded(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.client().RWMutex("x", holdfast.Reentrant())
		outer := r.lock(m.Lock)
		inner := r.lease(m.Lock(outer.Context()))
		if _, err := outer.Downgrade(t.Context()); !errors.Is(err, holdfast.ErrDowngrade) || outer.Err() != nil {
			t.Fatalf("got %v", err)
		}
		r.unlock(inner)
		shared := r.lease(outer.Downgrade(t.Context()))
		r.unlock(shared)
	})
}

func TestNestedDoIsBoundByTheOuterLease(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		err := c.Mutex("a", holdfast.FixedTTL(time.Second)).Do(t.Context(), func(ctx context.Context) error {
			return c.Mutex("b").Do(ctx, func(ctx context.Context) error {
				time.Sleep(time.Second) // the outer lease is over by now
				if ctx.Err() == nil {
					t.Error("the inner context does not know of the outer lease")
				}
				return nil
			})
		})
		if !errors.Is(err, holdfast.ErrLost) {
			t.Fatalf("got %v", err)
		}
	})
}

func TestOwnerOfNestedLocks(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		owner := func(name string) string {
			line, err := c.Inspect(t.Context(), name)
			if err != nil || len(line.Places) != 1 {
				t.Fatalf("%+v, %v", line, err)
			}
			return line.Places[0].Owner.ID
		}
		outer := r.lock(c.Mutex("a").Lock)
		inner := r.lease(c.Mutex("b").Lock(outer.Context()))
		innermost := r.lease(c.Mutex("c", holdfast.Owner("ignored: the lease's owner counts")).Lock(inner.Context()))
		if owner("a") != "" || owner("b") == "" || owner("b") != owner("c") {
			t.Errorf("the owners are %q, %q and %q", owner("a"), owner("b"), owner("c"))
		}
		given := r.lock(c.Mutex("d", holdfast.Owner("request 7")).Lock)
		under := r.lease(c.Mutex("e").Lock(given.Context()))
		if owner("d") != "request 7" || owner("e") != "request 7" {
			t.Errorf("the owners are %q and %q", owner("d"), owner("e"))
		}
		for _, l := range []*holdfast.Lease{innermost, inner, outer, under, given} {
			r.unlock(l)
		}
		if n := c.Owners(); n != 0 {
			t.Errorf("%d owners are left behind", n)
		}
	})
}

// TestAnotherUseOfTheNameIsNoReentrance: it does not match what is held, as it would not from elsewhere.
func TestAnotherUseOfTheNameIsNoReentrance(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		mutex := r.lock(c.Mutex("x").Lock)
		pool := r.lock(units(c.Semaphore("pool", 5), 3))
		for what, test := range map[string]struct {
			under *holdfast.Lease
			pool  *holdfast.Semaphore
		}{
			"a semaphore under a mutex":             {mutex, c.Semaphore("x", 5)},
			"a semaphore under a mutex, re-entrant": {mutex, c.Semaphore("x", 5, holdfast.Reentrant())},
			"one of another limit":                  {pool, c.Semaphore("pool", 6)},
		} {
			if _, err := test.pool.TryAcquire(test.under.Context(), 4); !errors.Is(err, holdfast.ErrMismatch) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

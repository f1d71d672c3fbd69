package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
)

func TestReentrantCountsAndPaysNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, n := r.counted()
		m := c.Mutex("x", holdfast.WithReentrance())
		outer := r.lock(m.Lock)
		inner := r.lease(m.Lock(outer.Context()))
		reader := r.lease(c.RWMutex("x", holdfast.WithReentrance()).RLock(inner.Context()))
		if n.joins.Load() != 1 || n.keeps.Load() != 0 {
			t.Fatalf("%d joins, %d keeps", n.joins.Load(), n.keeps.Load())
		}
		if inner.Token() != outer.Token() || reader.Token() != outer.Token() {
			t.Fatalf("the tokens are %v, %v and %v", outer.Token(), inner.Token(), reader.Token())
		}
		// In whatever order they are unlocked, the claim leaves with the last.
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
		m := r.client().RWMutex("x", holdfast.WithReentrance())
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

func TestReentranceIsOfTheLiveLeaseOnly(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		m := c.Mutex("x", holdfast.WithReentrance())
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
		m := r.client().Mutex("x", holdfast.WithReentrance())
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
		m := r.client().RWMutex("x", holdfast.WithReentrance())
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
		err := c.Mutex("a", holdfast.WithFixedTTL(time.Second)).Do(t.Context(), func(ctx context.Context) error {
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
			queue, err := c.Inspect(t.Context(), name)
			if err != nil || len(queue.Entries) != 1 {
				t.Fatalf("%+v, %v", queue, err)
			}
			return queue.Entries[0].Owner.ID
		}
		outer := r.lock(c.Mutex("a").Lock)
		inner := r.lease(c.Mutex("b").Lock(outer.Context()))
		innermost := r.lease(c.Mutex("c", holdfast.WithOwner("ignored")).Lock(inner.Context()))
		if owner("a") != "" || owner("b") == "" || owner("b") != owner("c") {
			t.Errorf("the owners are %q, %q and %q", owner("a"), owner("b"), owner("c"))
		}
		given := r.lock(c.Mutex("d", holdfast.WithOwner("request 7")).Lock)
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

// TestTakenAgain: a lock is requested under a lease of its own name. What would wait for itself is an error at once,
// and so is another use of the name, as it would be from elsewhere. It costs no lease.
func TestTakenAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, again := r.client(), holdfast.WithReentrance()
		writer, reader := r.lock(c.Mutex("x").Lock), r.lock(c.RWMutex("y").RLock)
		three := r.lock(units(c.Semaphore("pool", 5), 3))
		for _, test := range []struct {
			what  string
			under *holdfast.Lease
			lock  locker
			want  error
		}{
			{"Lock", writer, c.Mutex("x").Lock, holdfast.ErrReentered},
			{"TryLock", writer, c.Mutex("x").TryLock, holdfast.ErrReentered},
			{"RLock", writer, c.RWMutex("x").RLock, holdfast.ErrReentered},
			{"Campaign", writer, c.Election("x").Campaign, holdfast.ErrReentered},
			{"a reader that reads again", reader, c.RWMutex("y").RLock, holdfast.ErrReentered},
			{"another lock", writer, c.Mutex("z").TryLock, nil},

			{"a reader's Lock", reader, c.RWMutex("y").Lock, holdfast.ErrUpgrade},
			{"a reader's TryLock", reader, c.RWMutex("y").TryLock, holdfast.ErrUpgrade},
			{"a reader's Mutex", reader, c.Mutex("y").Lock, holdfast.ErrUpgrade},
			{"a reader's Campaign", reader, c.Election("y").Campaign, holdfast.ErrUpgrade},
			{"a reader's Lock, re-entrant", reader, c.RWMutex("y", again).Lock, holdfast.ErrUpgrade},
			{"a reader's TryLock, re-entrant", reader, c.RWMutex("y", again).TryLock, holdfast.ErrUpgrade},
			{"a reader's Mutex, re-entrant", reader, c.Mutex("y", again).Lock, holdfast.ErrUpgrade},
			{"a reader's Campaign, re-entrant", reader, c.Election("y", again).Campaign, holdfast.ErrUpgrade},

			{"units that can be granted", three, units(c.Semaphore("pool", 5), 2), nil},
			{"units that can never be granted", three, units(c.Semaphore("pool", 5), 3), holdfast.ErrReentered},
			{"units within what it has, re-entrant", three, units(c.Semaphore("pool", 5, again), 3), nil},
			{"more units than it has, re-entrant", three, units(c.Semaphore("pool", 5, again), 4), holdfast.ErrUpgrade},
			{"units of another limit", three, units(c.Semaphore("pool", 6), 4), holdfast.ErrMismatch},
			{"units of another limit, re-entrant", three, units(c.Semaphore("pool", 6, again), 3),
				holdfast.ErrMismatch},
			{"a semaphore under a mutex", writer, units(c.Semaphore("x", 5), 4), holdfast.ErrMismatch},
			{"a semaphore under a mutex, re-entrant", writer, units(c.Semaphore("x", 5, again), 4),
				holdfast.ErrMismatch},
		} {
			l, err := test.lock(test.under.Context())
			if !errors.Is(err, test.want) || errors.Is(err, holdfast.ErrReentered) &&
				errors.Is(err, holdfast.ErrUpgrade) {
				t.Errorf("%s: %v, want %v", test.what, err, test.want)
			}
			if err == nil {
				r.unlock(l)
			}
			if test.under.Err() != nil {
				t.Fatalf("%s: it cost the lease: %v", test.what, test.under.Err())
			}
		}
		r.refused("from elsewhere", c.Mutex("x").TryLock, holdfast.ErrLocked)
	})
}

package holdfast_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// TestWhoGivesWayDoesNotDependOnWhoLooksFirst: if it did, two who look at the same time would both give way.
func TestWhoGivesWayDoesNotDependOnWhoLooksFirst(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		clients := [2]*holdfast.Client{r.client(), r.client()}
		own := [2]string{"x", "y"}
		var gaveWay [2]int
		for first := range gaveWay { // who begins to wait, and looks, earlier
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
				t.Fatal("what was seen once may have been no more than the lines read at different times")
			}
			r.pass(2 * time.Second)
			if calls[0].done() == calls[1].done() {
				t.Fatal("one should have given way")
			}
			if calls[1].done() {
				gaveWay[first] = 1
			}
			victim := gaveWay[first]
			if !errors.Is(calls[victim].err, holdfast.ErrDeadlock) {
				t.Fatalf("got %v", calls[victim].err)
			}
			r.unlock(leases[victim])
			synctest.Wait()
			r.unlock(calls[1-victim].lease)
			r.unlock(leases[1-victim])
			synctest.Wait()
		}
		if gaveWay[0] != gaveWay[1] {
			t.Fatal("once the one gave way, and once the other")
		}
	})
}

// TestStoreWithoutALineIsNotSearchedForDeadlocks.
func TestStoreWithoutALineIsNotSearchedForDeadlocks(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var asked atomic.Int32
		d := &detour{can: func(a *store.Abilities) { a.Line = false }}
		d.line = func(ctx context.Context, name string) (store.Line, error) {
			asked.Add(1)
			return d.Store.Line(ctx, name)
		}
		c := r.around(d)
		r.lock(r.client().Mutex("y").Lock)
		r.begin(under(r.lock(c.Mutex("x").Lock), c.Mutex("y").Lock))
		r.pass(ttl)
		if asked.Load() != 0 {
			t.Fatalf("it was asked %d times for a line that it does not keep", asked.Load())
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

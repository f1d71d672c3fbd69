package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// TestWhoGivesWayDoesNotDependOnWhoLooksFirst: two clients deadlock, and the waiting claim with the larger ID gives
// way, whichever began to look earlier. Otherwise two that look at the same time could both give way.
func TestWhoGivesWayDoesNotDependOnWhoLooksFirst(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		clients := [2]*holdfast.Client{r.client(), r.client()}
		own := [2]string{"x", "y"}
		lines := r.server.Connect()
		defer lines.Close()
		waits := func(name string) []byte {
			line, err := lines.Line(t.Context(), name)
			if err != nil || len(line.Places) != 2 {
				t.Fatalf("%v, %v", line, err)
			}
			return line.Places[1].ID[:]
		}
		for round := range 16 {
			first := round % 2 // who begins to wait, and looks, earlier
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

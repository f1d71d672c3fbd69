package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// outageLimit is how long Lock retries while the store does not respond.
const outageLimit = 10 * time.Second

// isFault reports whether err is a failure of the store that may pass.
func isFault(err error) bool {
	_, fault := errors.AsType[*store.Fault](err)
	return fault && !store.Final(err)
}

// allReturned checks that calls have returned, with such errors.
func allReturned(t *testing.T, calls []*call, with func(error) bool) {
	t.Helper()
	for i, call := range calls {
		if !call.done() || !with(call.err) {
			t.Errorf("call %d: done %v, %v", i, call.done(), call.err)
		}
	}
}

// TestLockRidesOutAnOutage: the store cannot be reached when Lock is called, and can be a few seconds later. All calls
// that want the lock get it, in the order in which they came if their process hands it over. TryLock says at once what
// is wrong.
func TestLockRidesOutAnOutage(t *testing.T) {
	for _, turns := range []int{0, holdfast.DefaultTurns} {
		scene(t, fmt.Sprintf("%d turns", turns), func(t *testing.T, r *rig) {
			c, link := r.linked(holdfast.WithHandOver(turns, time.Second))
			link.Cut()
			var mu sync.Mutex
			var got []int
			var calls []*call
			for i := range 5 {
				calls = append(calls, r.begin(func(ctx context.Context) (*holdfast.Lease, error) {
					l, err := c.Mutex("x").Lock(ctx)
					if err == nil {
						mu.Lock()
						got = append(got, i)
						mu.Unlock()
						err = l.Unlock(ctx)
					}
					return l, err
				}))
			}
			began := time.Now()
			if _, err := c.Mutex("x").TryLock(t.Context()); !isFault(err) || time.Since(began) != 0 {
				t.Fatalf("TryLock, after %v: %v", time.Since(began), err)
			}
			r.pass(outageLimit * 3 / 4)
			link.Heal()
			r.pass(2 * time.Second)
			allReturned(t, calls, func(err error) bool { return err == nil })
			if want := []int{0, 1, 2, 3, 4}; turns > 0 && !slices.Equal(got, want) {
				t.Errorf("they got it in the order %v, want %v", got, want)
			}
			r.nothingRemains("x")
		})
	}
}

// TestNoJoinWithoutAWaiter: all waiters give up, or the client is closed, while a failed Join is to be tried again
// after a pause. Then it is not, and there is nothing to take back but the one that failed.
func TestNoJoinWithoutAWaiter(t *testing.T) {
	for what, end := range map[string]func(c *holdfast.Client, cancel func()){
		"given up": func(_ *holdfast.Client, cancel func()) { cancel() },
		"closed":   func(c *holdfast.Client, _ func()) { c.Close() },
	} {
		scene(t, what, func(t *testing.T, r *rig) {
			d := &detour{join: func(context.Context, store.Claim) error { return errDown }}
			c := r.around(d)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			waiter := r.begin(func(context.Context) (*holdfast.Lease, error) { return c.Mutex("x").Lock(ctx) })
			end(c, cancel)
			r.pass(outageLimit)
			if !waiter.done() || waiter.err == nil {
				t.Fatalf("done %v, %v", waiter.done(), waiter.err)
			}
			if d.joins.Load() != 1 || d.leaves.Load() != 1 {
				t.Errorf("%d Joins and %d Leaves", d.joins.Load(), d.leaves.Load())
			}
		})
	}
}

// TestStoreOutOfReach: the store does not respond to the client at all. Lock returns that ten seconds after its first
// try has failed, to all waiters of the process, and soon after its deadline to a caller that has one.
func TestStoreOutOfReach(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		link.Cut()
		calls := r.beginMany(3, c.Mutex("x").Lock)
		alone := c.Mutex("x", holdfast.WithHandOver(0, 0))
		for name, m := range map[string]*holdfast.Mutex{"queued": c.Mutex("x"), "alone": alone} {
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := m.Lock(ctx)
			cancel()
			if took := time.Since(began); took != time.Second || !isFault(err) ||
				!errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s, with a deadline, after %v: %v", name, took, err)
			}
		}
		r.pass(outageLimit - 3*time.Second)
		if slices.ContainsFunc(calls, (*call).done) {
			t.Fatal("a call has given up early")
		}
		r.pass(4 * time.Second)
		allReturned(t, calls, isFault)
	})
}

// TestJoinsAloneFail: the store accepts Leave of failed claims, and no Join ever succeeds. Lock returns the failure.
func TestJoinsAloneFail(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.around(&detour{join: func(context.Context, store.Claim) error { return errDown }})
		calls := append(r.beginMany(2, c.Mutex("x").Lock), r.begin(c.RWMutex("y").RLock))
		r.pass(outageLimit + 2*time.Second)
		allReturned(t, calls, isFault)
	})
}

// TestOverloadedStore: Joins fail for longer than the limit, but the store responds now and then. Then
// no call that may still wait fails.
func TestOverloadedStore(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var failing atomic.Bool
		failing.Store(true)
		c := r.around(&detour{join: func(_ context.Context, cl store.Claim) error {
			if failing.Load() && cl.Name == "x" {
				return errDown
			}
			return nil
		}})
		calls := append(r.beginMany(2, c.Mutex("x").Lock), r.begin(c.RWMutex("x").RLock))
		for range 12 {
			r.pass(outageLimit / 4)
			r.unlock(r.lock(c.Mutex("y").Lock))
		}
		if failing.Store(false); slices.ContainsFunc(calls, (*call).done) {
			t.Fatal("a call has given up though the store lives")
		}
		for range calls { // in any order
			r.pass(2 * time.Second)
			for _, call := range calls {
				if call.holds() {
					r.unlock(call.lease)
				}
			}
		}
		allReturned(t, calls, func(err error) bool { return err == nil })
	})
}

// TestBusyStore: no call gets a response for longer than the limit, and the store reports that it is connected. Then
// no call that may still wait fails either.
func TestBusyStore(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var quick atomic.Bool
		c := r.around(&detour{join: func(context.Context, store.Claim) error {
			if !quick.Load() {
				return &store.Fault{Store: "busy", Busy: true, Err: errors.New("no response in time")}
			}
			return nil
		}})
		queued, alone := r.begin(c.Mutex("x").Lock), r.begin(c.Mutex("y", holdfast.WithHandOver(0, 0)).Lock)
		r.pass(3 * outageLimit)
		quick.Store(true)
		if r.pass(2 * time.Second); !queued.holds() || !alone.holds() {
			t.Errorf("%v, %v", queued.err, alone.err)
		}
	})
}

// TestFinalFaultEndsTheWait: a failure that does not go away by itself is an error at once.
func TestFinalFaultEndsTheWait(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var final atomic.Bool
		c := r.around(&detour{join: func(context.Context, store.Claim) error {
			return &store.Fault{Store: "x", Final: final.Load(), Err: errors.New("as it was told")}
		}})
		calls := append(r.beginMany(2, c.Mutex("x").Lock), r.begin(c.Mutex("x", holdfast.WithHandOver(0, 0)).Lock))
		r.pass(time.Second)
		final.Store(true)
		r.pass(2 * time.Second)
		allReturned(t, calls, store.Final)
	})
}

// TestRetriedJoinLandsLate: the request of a Join that failed arrives when its caller has acquired the lock by a later
// one. It gives no client a hold, and blocks none.
func TestRetriedJoinLandsLate(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var mu sync.Mutex
		var late []store.Claim
		d := &detour{join: func(_ context.Context, cl store.Claim) error {
			mu.Lock()
			defer mu.Unlock()
			if len(late) < 2 {
				late = append(late, cl)
				return errDown
			}
			return nil
		}}
		c := r.around(d)
		held := r.begin(c.Mutex("x").Lock)
		r.pass(5 * time.Second)
		if !held.holds() {
			t.Fatalf("done %v, %v", held.done(), held.err)
		}
		for _, cl := range late {
			if s, err := d.Store.Join(t.Context(), cl); err != nil || s.State != store.Gone {
				t.Errorf("a Join that was given up stands: %v, %v", s.State, err)
			}
		}
		r.check(held.lease.Err())
		r.unlock(held.lease)
		r.unlock(r.lock(r.client().Mutex("x").TryLock))
		r.nothingRemains("x")
	})
}

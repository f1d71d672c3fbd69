package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// TestWaitDoesNotBoundTryLock: it does not wait for the lock, and how long the store takes is another matter.
func TestWaitDoesNotBoundTryLock(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.around(&detour{join: func(ctx context.Context, _ store.Claim) error { return slow(ctx, time.Second/2) }})
		r.lock(c.Mutex("x", holdfast.WithWait(time.Millisecond)).TryLock)
	})
}

// TestFinalErrorReachesWaiters: the store will say the same for ever.
func TestFinalErrorReachesWaiters(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		r.lock(r.client().Mutex("x").Lock)
		waiters := []*call{
			r.begin(c.Mutex("x").Lock), r.begin(c.Mutex("x").Lock), r.begin(c.RWMutex("x").RLock),
		}
		r.server.PlantNewer("x")
		r.pass(ttl / 2)
		for i, w := range waiters {
			if !w.done() || !errors.Is(w.err, holdfast.ErrFormat) {
				t.Errorf("waiter %d: %v", i, w.err)
			}
		}
		if c.Waiting() != 0 {
			t.Errorf("%d claims still wait", c.Waiting())
		}
	})
}

// TestClaimLostRepeatedlyIsNoHotLoop: a store that loses what it has, or an operator's script that breaks all.
func TestClaimLostRepeatedlyIsNoHotLoop(t *testing.T) {
	for what, test := range map[string]struct {
		joins int64 // how many of the first ones succeed
		begin func(r *rig, c *holdfast.Client) *call
	}{
		"by itself":            {0, func(r *rig, c *holdfast.Client) *call { return r.begin(c.RWMutex("x").RLock) }},
		"first of its process": {0, func(r *rig, c *holdfast.Client) *call { return r.begin(c.Mutex("x").Lock) }},
		"behind others of its process": {1, func(r *rig, c *holdfast.Client) *call {
			r.lock(c.Mutex("x").Lock)
			return r.begin(c.Mutex("x").Lock)
		}},
	} {
		scene(t, what, func(t *testing.T, r *rig) {
			d := &detour{}
			d.joined = func(c store.Claim, s *store.Status) error {
				if d.joins.Load() > test.joins {
					r.server.Erase("x", c.ID)
					*s = store.Status{State: store.Gone}
				}
				return nil
			}
			waiter := test.begin(r, r.around(d))
			r.pass(time.Minute)
			if n := d.joins.Load(); n < 100 || n > 1000 {
				t.Errorf("%d joins in a minute", n)
			}
			r.waits(waiter, "it gave up")
			waiter.end()
			if synctest.Wait(); !errors.Is(waiter.err, context.Canceled) {
				t.Fatalf("got %v", waiter.err)
			}
		})
	}
}

// TestClaimLostAfterAGrantIsReplacedAtOnce: there is a pause only if the store loses it repeatedly.
func TestClaimLostAfterAGrantIsReplacedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, other := r.client(), r.client()
		for range 5 {
			holder := r.lock(other.Mutex("x").Lock)
			waiter := r.begin(c.Mutex("x").Lock)
			r.must(other.Break(t.Context(), "x", r.queue(other, "x").Waiters()[0].Token))
			if synctest.Wait(); c.Waiting() != 1 {
				t.Fatal("it is not in the queue again")
			}
			r.unlock(holder)
			r.holds(waiter, "it was not granted")
			r.unlock(waiter.lease)
		}
	})
}

// TestLockedErrorCountsOnlyThoseAhead checks that Ahead does not count later claims.
func TestLockedErrorCountsOnlyThoseAhead(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		holder := r.lock(r.client().RWMutex("x").Lock)
		waiter := r.begin(r.client().RWMutex("x", holdfast.WithWait(time.Second)).Lock)
		r.begin(r.client().RWMutex("x").Lock)
		r.begin(r.client().RWMutex("x").RLock)
		r.pass(time.Second)
		var locked *holdfast.LockedError
		if !errors.As(waiter.err, &locked) || locked.Ahead != 1 || locked.Token != holder.Token() {
			t.Fatalf("got %+v, %v", locked, waiter.err)
		}
	})
}

func TestWaiterRidesOutAnOutage(t *testing.T) {
	for name, outage := range map[string]func(r *rig, link linkFaults, heal func()){
		"short": func(r *rig, link linkFaults, heal func()) { link.Cut(); r.pass(ttl / 3); heal() },
		"longer than the ttl": func(r *rig, link linkFaults, heal func()) {
			link.Cut()
			r.pass(10 * ttl)
			heal()
		},
		"restart without data": func(r *rig, _ linkFaults, _ func()) { r.server.Restart(false) },
	} {
		scene(t, name, func(t *testing.T, r *rig) {
			c, link := r.linked()
			other := r.client()
			first := r.lock(other.Mutex("x").Lock)
			waiter := r.begin(c.Mutex("x").Lock)
			outage(r, link, link.Heal)
			r.pass(ttl)
			if waiter.done() && waiter.err != nil {
				t.Fatalf("it gave up: %v", waiter.err)
			}
			first.Unlock(t.Context()) //nolint:errcheck // it may be lost
			r.pass(ttl)
			r.holds(waiter, "it did not go on")
			if waiter.lease.Token() <= first.Token() {
				t.Fatalf("token %v after %v", waiter.lease.Token(), first.Token())
			}
		})
	}
}

func TestCancelledWaitLeavesTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		first := r.lock(r.client().Mutex("x").Lock)
		cancelled := r.begin(r.client().Mutex("x").Lock)
		next := r.begin(r.client().Mutex("x").Lock)
		cancelled.end()
		if synctest.Wait(); !errors.Is(cancelled.err, context.Canceled) {
			t.Fatalf("got %v", cancelled.err)
		}
		r.unlock(first)
		r.holds(next, "the cancelled one stands in the way")
		r.unlock(next.lease)
		r.nothingRemains("x")
	})
}

// TestUnknownJoin is rule 8: whatever happens to a Join on its way, a caller that got an error holds nothing,
// and nothing blocks other clients for longer than a release takes.
func TestUnknownJoin(t *testing.T) {
	for name, hold := range map[string]func(linkFaults) func(){
		"the request is late": func(l linkFaults) func() { return l.HoldRequests() },
		"the answer is late":  func(l linkFaults) func() { return l.HoldReplies() },
	} {
		scene(t, name, func(t *testing.T, r *rig) {
			c, link := r.linked()
			release := hold(link)
			unknown := r.begin(c.Mutex("x").Lock)
			unknown.end()
			if synctest.Wait(); !unknown.done() || !errors.Is(unknown.err, context.Canceled) {
				t.Fatal("it did not return with its context's error")
			}
			release()
			r.pass(ttl / 4)
			if synctest.Wait(); r.server.Residue("x") > 1 { // a tombstone at most
				t.Fatalf("a caller that got an error still has a claim in the queue")
			}
			r.unlock(r.lock(r.client().Mutex("x").TryLock))
			r.nothingRemains("x")
		})
	}
}

func TestJoinThatFailsIsReportedAndCleanedUp(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		link.Cut()
		if _, err := c.Mutex("x").Lock(t.Context()); err == nil || errors.Is(err, holdfast.ErrLocked) {
			t.Fatalf("got %v", err)
		}
		link.Heal()
		r.unlock(r.lock(c.Mutex("x").Lock))
		r.nothingRemains("x")
	})
}

// TestWaiterThatIsCutOffGetsTheStoresError: it cannot know whether there is a holder.
func TestWaiterThatIsCutOffGetsTheStoresError(t *testing.T) {
	for what, test := range map[string]struct {
		wait time.Duration
		fail func(d *detour, link *storetest.Pipe)
		says func(error) bool // of the fault, if the store has reported one
	}{
		"cut before its first Keep":  {ttl / 6, func(_ *detour, link *storetest.Pipe) { link.Cut() }, isFault},
		"hung before its first Keep": {ttl / 6, func(_ *detour, link *storetest.Pipe) { link.HoldRequests() }, nil},
		"cut after a while": {2 * ttl, func(_ *detour, link *storetest.Pipe) {
			time.AfterFunc(time.Second, link.Cut)
		}, isFault},
		"not kept, though the queue can be read": {ttl / 2, func(d *detour, _ *storetest.Pipe) {
			d.lie(func(_ store.Claim, s *store.Status) { s.Err = errDown })
		}, func(err error) bool { return errors.Is(err, errDown) }},
	} {
		scene(t, what, func(t *testing.T, r *rig) {
			c, d, link := r.countedLink()
			r.lock(r.client().Mutex("x").Lock)
			waiter := r.begin(c.Mutex("x", holdfast.WithWait(test.wait)).Lock)
			test.fail(d, link)
			r.pass(test.wait + time.Second)
			if !waiter.done() || !errors.Is(waiter.err, context.DeadlineExceeded) ||
				errors.Is(waiter.err, holdfast.ErrLocked) {
				t.Fatalf("got %v", waiter.err)
			}
			if test.says != nil && !test.says(waiter.err) {
				t.Fatalf("it does not name the fault: %v", waiter.err)
			}
		})
	}
}

// TestCauseOfAContextThatEnds is in the error, wherever the call waits.
func TestCauseOfAContextThatEnds(t *testing.T) {
	why := errors.New("the user went away")
	for where, stop := range map[string]func(r *rig, link *storetest.Pipe){
		"during Join":  func(_ *rig, link *storetest.Pipe) { link.HoldRequests() },
		"in the queue": func(r *rig, _ *storetest.Pipe) { r.lock(r.client().Mutex("x").Lock) },
	} {
		for what, want := range map[string]error{"cancelled": context.Canceled, "deadline": context.DeadlineExceeded} {
			scene(t, where+"/"+what, func(t *testing.T, r *rig) {
				c, link := r.linked()
				stop(r, link)
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(why) })
				if what == "deadline" {
					var done context.CancelFunc
					ctx, done = context.WithTimeoutCause(t.Context(), time.Second, why)
					defer done()
				}
				_, err := c.Mutex("x").Lock(ctx)
				if !errors.Is(err, want) || !errors.Is(err, why) {
					t.Fatalf("got %v", err)
				}
				if what == "cancelled" && errors.Is(err, holdfast.ErrLocked) {
					t.Fatalf("it was not locked out: %v", err)
				}
				if _, err := c.Mutex("x").Lock(ctx); !errors.Is(err, want) {
					t.Fatalf("with a context that is done: %v", err)
				}
			})
		}
	}
}

// TestResponseThatCameTooLate: the response to a Join took longer than the ttl. It grants nothing. TryLock reports
// that, and Lock goes on with a new claim.
func TestResponseThatCameTooLate(t *testing.T) {
	for _, try := range []bool{false, true} {
		scene(t, map[bool]string{false: "Lock", true: "TryLock"}[try], func(t *testing.T, r *rig) {
			c, link := r.linked()
			release := link.HoldReplies()
			lock, ctx := c.Mutex("x").Lock, r.within(time.Hour)
			if try {
				lock = c.Mutex("x").TryLock
			}
			slow := r.begin(func(context.Context) (*holdfast.Lease, error) { return lock(ctx) })
			r.pass(ttl)
			release()
			synctest.Wait()
			if slow.done() != try || try && !errors.Is(slow.err, holdfast.ErrLost) {
				t.Fatalf("got %v, %v", slow.lease, slow.err)
			}
			r.unlock(r.lock(r.client().Mutex("x").TryLock))
			if !try {
				r.pass(2 * time.Second)
				r.holds(slow, "it did not go on")
			}
		})
	}
}

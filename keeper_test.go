package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// A counter counts what is asked of a store, and can answer otherwise.
type counter struct {
	store.Store
	joins, keeps, kept, leaves atomic.Int64

	mu     sync.Mutex
	answer func(store.Claim, store.Standing) store.Standing // of Keep
	push   func(store.ID, store.Standing)
}

func (c *counter) Notify(fn func(store.ID, store.Standing)) {
	c.push = fn
	c.Store.Notify(fn)
}

func (c *counter) Join(ctx context.Context, cl store.Claim) (store.Standing, error) {
	c.joins.Add(1)
	return c.Store.Join(ctx, cl)
}

func (c *counter) Keep(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
	c.keeps.Add(1)
	c.kept.Add(int64(len(cs)))
	standings, err := c.Store.Keep(ctx, cs)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range standings {
		if c.answer != nil {
			standings[i] = c.answer(cs[i], standings[i])
		}
	}
	return standings, err
}

func (c *counter) Leave(ctx context.Context, cl store.Claim) error {
	c.leaves.Add(1)
	return c.Store.Leave(ctx, cl)
}

func (c *counter) lie(answer func(store.Claim, store.Standing) store.Standing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = answer
}

func (r *rig) counted() (*holdfast.Client, *counter) {
	n := &counter{Store: r.server.Connect()}
	c := holdfast.New(n)
	r.Cleanup(func() { c.Close() })
	return c, n
}

func TestUncontendedCostsOneCallEach(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, n := r.counted()
		for range 10 {
			r.unlock(r.lock(c.Mutex("x").Lock))
		}
		r.pass(ttl)
		if n.joins.Load() != 10 || n.leaves.Load() != 10 || n.keeps.Load() != 0 {
			t.Fatalf("%d joins, %d leaves, %d keeps for 10 locks", n.joins.Load(), n.leaves.Load(), n.keeps.Load())
		}
	})
}

func TestShortHoldAfterAPushCostsNoKeep(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, n := r.counted()
		first := r.lock(c.Mutex("x").Lock)
		next := r.begin(c.Mutex("x").Lock)
		r.unlock(first)
		synctest.Wait()
		r.unlock(next.lease)
		r.pass(ttl)
		if n.keeps.Load() != 0 {
			t.Fatalf("%d keeps", n.keeps.Load())
		}
	})
}

func TestManyLeasesAreKeptInBatchesWithoutGoroutines(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		const leases = 5000
		c, n := r.counted()
		before := runtime.NumGoroutine()
		for i := range leases {
			r.lock(c.Mutex(fmt.Sprint(i)).Lock)
		}
		if now := runtime.NumGoroutine(); now > before+1 {
			t.Errorf("%d leases have %d goroutines", leases, now-before)
		}
		r.pass(ttl / 2)
		if n.kept.Load() != leases {
			t.Errorf("%d claims kept, want each of %d once", n.kept.Load(), leases)
		}
		if n.keeps.Load() > leases/100 {
			t.Errorf("%d calls for %d claims", n.keeps.Load(), leases)
		}
	})
}

func TestFailedRenewalIsRetriedWithinTheTTL(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		l := r.lock(c.Mutex("x").Lock)
		for range 20 {
			link.Cut()
			r.pass(ttl / 2)
			link.Heal()
			r.pass(ttl / 4)
			if l.Err() != nil {
				t.Fatalf("an outage of half a ttl cost the lease: %v", l.Err())
			}
		}
	})
}

func TestHungRenewalIsGivenUpAndRepeated(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		l := r.lock(c.Mutex("x").Lock)
		release := link.HoldRequests()
		r.pass(ttl / 3 * 2)
		link.Cut() // what hung is lost for ever
		release()
		link.Heal()
		r.pass(ttl)
		if l.Err() != nil {
			t.Fatalf("one hung call cost the lease: %v", l.Err())
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
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
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
				if !waiter.holds() {
					t.Fatal("it did not go on")
				}
				if waiter.lease.Token() <= first.Token() {
					t.Fatalf("token %v after %v", waiter.lease.Token(), first.Token())
				}
			})
		})
	}
}

func TestWaiterWhoseContextEndsInAnOutageGetsTheStoresError(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		r.lock(r.client().Mutex("x").Lock)
		go func() { time.Sleep(time.Second); link.Cut() }()
		_, err := c.Mutex("x", holdfast.Wait(2*ttl)).Lock(t.Context())
		var fault *store.Fault
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &fault) || errors.Is(err, holdfast.ErrLocked) {
			t.Fatalf("got %v", err)
		}
	})
}

func TestLostPushIsMadeUpForByTheNextKeep(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		first := r.lock(r.client().Mutex("x").Lock)
		waiter := r.begin(c.Mutex("x").Lock)
		link.DropPushes(true)
		r.unlock(first)
		if synctest.Wait(); waiter.done() {
			t.Fatal("the push was not dropped")
		}
		r.pass(ttl / 3)
		if !waiter.holds() {
			t.Fatal("Keep did not tell")
		}
	})
}

func TestPushBeforeJoinsAnswerGrantsNothingAndIsAskedAfter(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		first := r.lock(r.client().Mutex("x").Lock)
		release := link.HoldReplies()
		waiter := r.begin(c.Mutex("x").Lock)
		r.unlock(first) // the push is there before Join's answer
		if synctest.Wait(); waiter.done() {
			t.Fatal("an early push granted something")
		}
		release() // the answer says Waiting
		r.pass(time.Millisecond)
		if !waiter.holds() {
			t.Fatal("nobody asked again")
		}
	})
}

func TestLatePushAfterTheTimeIsOverGrantsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		first := r.lock(r.client().Mutex("x").Lock)
		waiter := r.begin(c.Mutex("x").Lock)
		letGo := link.HoldPushes()
		r.unlock(first) // granted; the push is on its way
		link.HoldRequests()
		r.pass(2 * ttl) // the store has long given it up
		taken := r.lock(r.client().Mutex("x").TryLock)
		letGo()
		if synctest.Wait(); waiter.done() {
			t.Fatalf("two hold it: %v and the waiter", taken.Token())
		}
	})
}

func TestWaitingAfterHeldMeansTheGrantIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, n := r.counted()
		l := r.lock(c.Mutex("x").Lock)
		n.lie(func(_ store.Claim, s store.Standing) store.Standing { s.State = store.Waiting; return s })
		r.pass(ttl / 2)
		if !errors.Is(l.Err(), holdfast.ErrLost) {
			t.Fatalf("it says %v", l.Err())
		}
		if n.leaves.Load() == 0 {
			t.Fatal("the place was left behind")
		}
	})
}

func TestAnswerToAnEarlierKeepIsIgnored(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		first := r.lock(r.client().Mutex("x").Lock)
		waiter := r.begin(c.Mutex("x").Lock)
		release := link.HoldReplies()
		r.pass(ttl/3 + time.Second) // the waiter's Keep says Waiting, and its answer is on its way
		r.unlock(first)             // the push overtakes it
		if synctest.Wait(); !waiter.holds() {
			t.Fatal("the push did not grant")
		}
		release()
		r.pass(ttl)
		if !waiter.holds() {
			t.Fatalf("old news ended the lease: %v", waiter.lease.Err())
		}
	})
}

func TestEverythingIsKeptOnceAfterAReconnect(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, n := r.counted()
		for i := range 100 {
			r.lock(c.Mutex(fmt.Sprint(i)).Lock)
		}
		n.push(store.Everyone, store.Standing{})
		synctest.Wait()
		r.pass(time.Millisecond)
		if n.kept.Load() != 100 {
			t.Fatalf("%d of 100 were kept", n.kept.Load())
		}
	})
}

func TestStoreThatAnswersForTooFewIsNotBelieved(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := holdfast.New(deafStore{r.server.Connect()})
		r.Cleanup(func() { c.Close() })
		l := r.lock(c.Mutex("x").Lock)
		r.pass(ttl)
		var fault *store.Fault
		if err := l.Err(); !errors.Is(err, holdfast.ErrLost) {
			t.Fatalf("it says %v", err)
		}
		if cause := context.Cause(l.Context()); !errors.As(cause, &fault) {
			t.Fatalf("the reason is not given: %v", cause)
		}
	})
}

// deafStore answers Keep with nothing.
type deafStore struct{ store.Store }

func (deafStore) Keep(context.Context, []store.Claim) ([]store.Standing, error) { return nil, nil }

// calls is how many calls there were in all.
func (c *counter) calls() int64 { return c.joins.Load() + c.keeps.Load() + c.leaves.Load() }

package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

func TestObserverSeesTheRequest(t *testing.T) {
	const whole = store.MaxReaders
	bubble(t, func(t *testing.T, r *rig) {
		c, o := r.observed()
		pool := c.Semaphore("x", 5)
		do := func(do func(context.Context, func(context.Context) error) error) locker {
			return func(ctx context.Context) (*holdfast.Lease, error) {
				return nil, do(ctx, func(context.Context) error { return nil })
			}
		}
		lockAll := func(p holdfast.Part) locker {
			return func(ctx context.Context) (*holdfast.Lease, error) {
				m, err := holdfast.LockAll(ctx, p)
				if err != nil {
					return nil, err
				}
				return nil, m.Unlock(ctx)
			}
		}
		for i, test := range []struct {
			lock   locker
			op     string
			kind   store.Kind
			units  int
			limit  int
			shared bool
		}{
			{c.Mutex("x").Lock, "lock", store.Lock, whole, whole, false},
			{c.Mutex("x").TryLock, "trylock", store.Lock, whole, whole, false},
			{do(c.Mutex("x").Do), "lock", store.Lock, whole, whole, false},
			{c.RWMutex("x").Lock, "lock", store.Lock, whole, whole, false},
			{c.RWMutex("x").TryLock, "trylock", store.Lock, whole, whole, false},
			{c.RWMutex("x").RLock, "rlock", store.Lock, 1, whole, true},
			{c.RWMutex("x").TryRLock, "tryrlock", store.Lock, 1, whole, true},
			{do(c.RWMutex("x").RDo), "rlock", store.Lock, 1, whole, true},
			{units(pool, 2), "acquire", store.Semaphore, 2, 5, true},
			{units(pool, 5), "acquire", store.Semaphore, 5, 5, true},
			{func(ctx context.Context) (*holdfast.Lease, error) { return pool.TryAcquire(ctx, 2) }, "tryacquire",
				store.Semaphore, 2, 5, true},
			{c.Election("x").Campaign, "campaign", store.Lock, whole, whole, false},
			{lockAll(c.RWMutex("x").Reader()), "rlock", store.Lock, 1, whole, true},
			{lockAll(pool.Units(3)), "acquire", store.Semaphore, 3, 5, true},
		} {
			if l := r.lock(test.lock); l != nil {
				if hold := o.last(&o.holds); hold.token != l.Token() || hold.ends != 0 {
					t.Errorf("%s: the lease is %+v", test.op, hold)
				}
				r.unlock(l)
			}
			if waits, holds := o.counts(); waits != i+1 || holds != i+1 {
				t.Fatalf("%s: %d waits and %d leases, want %d each", test.op, waits, holds, i+1)
			}
			want := holdfast.Request{Op: test.op, Name: "x", Store: "memory", Kind: test.kind, Units: test.units,
				Limit: test.limit}
			wait, hold := o.last(&o.waits), o.last(&o.holds)
			if wait.Request != want || hold.Request != want || want.Shared() != test.shared ||
				hold.token.Shared() != test.shared {
				t.Errorf("the wait is %+v, the lease %+v, want %+v", wait.Request, hold.Request, want)
			}
			if wait.why != nil || !errors.Is(hold.why, holdfast.ErrNotHeld) || errors.Is(hold.why, holdfast.ErrLost) {
				t.Errorf("%s: the wait ended with %v, the lease with %v", test.op, wait.why, hold.why)
			}
		}
		o.allOver(t)
	})
}

func TestObserverSeesWhyALeaseIsOver(t *testing.T) {
	for what, test := range map[string]struct {
		end  func(r *rig, c *holdfast.Client, l *holdfast.Lease)
		want error
	}{
		"unlocked": {func(r *rig, _ *holdfast.Client, l *holdfast.Lease) { r.unlock(l) }, holdfast.ErrNotHeld},
		"unlocked twice": {func(r *rig, _ *holdfast.Client, l *holdfast.Lease) {
			r.unlock(l)
			l.Unlock(r.Context()) //nolint:errcheck // it must not be heard of again
		}, holdfast.ErrNotHeld},
		"store lost its data": {func(r *rig, _ *holdfast.Client, _ *holdfast.Lease) { r.server.Restart(false) },
			holdfast.ErrLost},
		"broken": {func(r *rig, c *holdfast.Client, l *holdfast.Lease) {
			r.must(c.Break(r.Context(), "x", l.Token()))
		}, holdfast.ErrLost},
		"expired": {func(r *rig, _ *holdfast.Client, _ *holdfast.Lease) { r.pass(ttl) }, holdfast.ErrLost},
		"expired, checked": {func(_ *rig, _ *holdfast.Client, l *holdfast.Lease) { time.Sleep(ttl); _ = l.Err() },
			holdfast.ErrLost},
		"closed": {func(_ *rig, c *holdfast.Client, _ *holdfast.Lease) { c.Close() }, holdfast.ErrClosed},
		"lost and closed": {func(r *rig, c *holdfast.Client, _ *holdfast.Lease) { r.pass(ttl); c.Close() },
			holdfast.ErrLost},
	} {
		scene(t, what, func(t *testing.T, r *rig) {
			c, o := r.observed()
			l := r.lock(c.Mutex("x", holdfast.WithFixedTTL(ttl)).Lock)
			if hold := o.last(&o.holds); hold.ends != 0 {
				t.Fatalf("it is over: %v", hold.why)
			}
			test.end(r, c, l)
			synctest.Wait()
			hold := o.last(&o.holds)
			if !errors.Is(hold.why, test.want) {
				t.Errorf("it was over with %v", hold.why)
			}
			for _, other := range []error{holdfast.ErrNotHeld, holdfast.ErrLost, holdfast.ErrClosed} {
				if !errors.Is(test.want, other) && errors.Is(hold.why, other) {
					t.Errorf("%v is %v too", hold.why, other)
				}
			}
			if waits, holds := o.counts(); waits != 1 || holds != 1 {
				t.Errorf("%d waits, %d leases", waits, holds)
			}
			r.pass(ttl)
			o.allOver(t)
		})
	}
}

func TestObserverSeesDowngrade(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, o := r.observed()
		l := r.lock(c.RWMutex("x").Lock)
		shared := r.lease(l.Downgrade(t.Context()))
		if waits, holds := o.counts(); waits != 1 || holds != 2 {
			t.Fatalf("%d waits, %d leases", waits, holds)
		}
		first, second := o.holds[0], o.last(&o.holds)
		if first.ends != 1 || !errors.Is(first.why, holdfast.ErrNotHeld) {
			t.Errorf("the writer's was over %d times, with %v", first.ends, first.why)
		}
		if second.token != shared.Token() || !second.Shared() || second.Units != 1 || second.Name != "x" ||
			second.Store != "memory" || second.ends != 0 {
			t.Errorf("the reader's is %+v", second)
		}
		r.unlock(shared)
		o.allOver(t)
	})
}

func TestObserverSeesWhyNothingWasAcquired(t *testing.T) {
	timeout := func(lock locker) locker {
		return func(ctx context.Context) (*holdfast.Lease, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return lock(ctx)
		}
	}
	for what, test := range map[string]struct {
		lock  func(c *holdfast.Client) locker
		while func(r *rig, c *holdfast.Client, wait *call)
		want  error
	}{
		"trylock":  {func(c *holdfast.Client) locker { return c.Mutex("x").TryLock }, nil, holdfast.ErrLocked},
		"tryrlock": {func(c *holdfast.Client) locker { return c.RWMutex("x").TryRLock }, nil, holdfast.ErrLocked},
		"deadline": {func(c *holdfast.Client) locker { return timeout(c.Mutex("x").Lock) }, nil,
			context.DeadlineExceeded},
		"Wait": {func(c *holdfast.Client) locker { return c.Mutex("x", holdfast.WithWait(time.Second)).Lock }, nil,
			holdfast.ErrLocked},
		"cancelled": {func(c *holdfast.Client) locker { return c.Mutex("x").Lock },
			func(_ *rig, _ *holdfast.Client, wait *call) { wait.end() }, context.Canceled},
		"closed": {func(c *holdfast.Client) locker { return c.Mutex("x").Lock },
			func(_ *rig, c *holdfast.Client, _ *call) { c.Close() }, holdfast.ErrClosed},
		"mismatch": {func(c *holdfast.Client) locker { return units(c.Semaphore("x", 5), 1) }, nil,
			holdfast.ErrMismatch},
	} {
		scene(t, what, func(t *testing.T, r *rig) {
			r.lock(r.client().Mutex("x").Lock)
			c, o := r.observed()
			wait := r.begin(test.lock(c))
			if test.while != nil {
				r.pass(time.Second)
				if seen := o.last(&o.waits); seen.Name != "x" || seen.ends != 0 {
					t.Errorf("while it waits: %+v", seen)
				}
				test.while(r, c, wait)
			}
			<-wait.returned
			if waits, holds := o.counts(); waits != 1 || holds != 0 {
				t.Errorf("%d waits, %d leases", waits, holds)
			}
			if seen := o.last(&o.waits); wait.err == nil || !errors.Is(seen.why, test.want) ||
				!errors.Is(wait.err, seen.why) {
				t.Errorf("it was over with %v; the call got %v", seen.why, wait.err)
			}
			o.allOver(t)
		})
	}
}

// TestObserverDoesNotSeeWrongCalls: a request that is not possible is not a wait.
func TestObserverDoesNotSeeWrongCalls(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, o := r.observed()
		var none context.Context
		if _, err := c.Mutex("").Lock(t.Context()); err == nil {
			t.Error("a bad name")
		}
		if _, err := c.Mutex("x").Lock(none); err == nil {
			t.Error("a nil context")
		}
		if waits, holds := o.counts(); waits != 0 || holds != 0 {
			t.Errorf("%d waits, %d leases", waits, holds)
		}
	})
}

// A rollingBack is a store whose server rolls calls back.
type rollingBack struct {
	store.Store
	retried func(error)
}

func (s *rollingBack) NotifyRetry(fn func(error)) { s.retried = fn }

// TestObserverSeesRetries: a call is rolled back by the server and repeated. The Observer learns which store it
// was and why, and without an Observer the store has no function to call.
func TestObserverSeesRetries(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		o := &recorder{}
		observed, alone := &rollingBack{Store: r.server.Connect()}, &rollingBack{Store: r.server.Connect()}
		c, other := holdfast.New(observed, holdfast.WithObserver(o)), holdfast.New(alone)
		defer c.Close()
		defer other.Close()
		observed.retried(errors.New("a deadlock of the server"))
		if len(o.retries) != 1 || o.retries[0] != "memory: a deadlock of the server" {
			t.Errorf("got %q", o.retries)
		}
		if alone.retried != nil {
			t.Error("a store got a function without an observer")
		}
	})
}

package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// A span is a wait or a lease, as an Observer saw it.
type span struct {
	holdfast.Request
	id    int
	token holdfast.Token  // of a lease
	given context.Context // what Waiting or Holding was given
	ends  int             // how often it was over
	why   error           // with what, the last time
}

// A note is one call of another method.
type note struct {
	holdfast.Request
	token holdfast.Token
	left  time.Duration
	err   error
}

// A renewal is one call of Renewed.
type renewal struct {
	store  string
	claims int
	took   time.Duration
	err    error
}

// A recorder is an Observer that writes down everything.
type recorder struct {
	mu         sync.Mutex
	waits      []*span
	holds      []*span
	renewals   []renewal
	jeopardies []note
	handed     []note
	deadlocks  []note
}

// The keys under which a recorder puts the number of the span into a context.
type (
	waitKey struct{}
	holdKey struct{}
)

func (o *recorder) begin(spans *[]*span, s *span) (id int, over func(error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s.id = len(*spans) + 1
	*spans = append(*spans, s)
	return s.id, func(why error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		s.ends++
		s.why = why
	}
}

func (o *recorder) Waiting(ctx context.Context, r holdfast.Request) (context.Context, func(error)) {
	id, over := o.begin(&o.waits, &span{Request: r, given: ctx})
	return context.WithValue(ctx, waitKey{}, id), over
}

func (o *recorder) Holding(ctx context.Context, r holdfast.Request, token holdfast.Token) (context.Context, func(error)) {
	id, over := o.begin(&o.holds, &span{Request: r, token: token, given: ctx})
	return context.WithValue(ctx, holdKey{}, id), over
}

func (o *recorder) Renewed(store string, claims int, took time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.renewals = append(o.renewals, renewal{store, claims, took, err})
}

func (o *recorder) Jeopardy(r holdfast.Request, token holdfast.Token, left time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.jeopardies = append(o.jeopardies, note{r, token, left, err})
}

func (o *recorder) HandedOver(r holdfast.Request, token holdfast.Token) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.handed = append(o.handed, note{Request: r, token: token})
}

func (o *recorder) Deadlocked(r holdfast.Request, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deadlocks = append(o.deadlocks, note{Request: r, err: err})
}

// last is the youngest of spans.
func (o *recorder) last(spans *[]*span) span {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(*spans) == 0 {
		return span{}
	}
	return *(*spans)[len(*spans)-1]
}

// counts is how many waits and leases there were.
func (o *recorder) counts() (waits, holds int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waits), len(o.holds)
}

// allOver checks that everything that began was over once.
func (o *recorder) allOver(t *testing.T) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for what, spans := range map[string][]*span{"wait": o.waits, "lease": o.holds} {
		for _, s := range spans {
			if s.ends != 1 {
				t.Errorf("%s %d, %s %q, was over %d times, the last with %v", what, s.id, s.Op, s.Name, s.ends, s.why)
			}
		}
	}
}

// observed is a client with an Observer that writes everything down.
func (r *rig) observed(options ...holdfast.Option) (*holdfast.Client, *recorder) {
	o := &recorder{}
	return r.client(append(options, holdfast.Observe(o))...), o
}

func TestObserverIsToldWhatWasAsked(t *testing.T) {
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
			{func(ctx context.Context) (*holdfast.Lease, error) { return pool.TryAcquire(ctx, 2) }, "tryacquire", store.Semaphore, 2, 5, true},
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
			want := holdfast.Request{Op: test.op, Name: "x", Store: "memory", Kind: test.kind, Units: test.units, Limit: test.limit}
			wait, hold := o.last(&o.waits), o.last(&o.holds)
			if wait.Request != want || hold.Request != want || want.Shared() != test.shared || hold.token.Shared() != test.shared {
				t.Errorf("the wait is %+v, the lease %+v, want %+v", wait.Request, hold.Request, want)
			}
			if wait.why != nil || !errors.Is(hold.why, holdfast.ErrNotHeld) || errors.Is(hold.why, holdfast.ErrLost) {
				t.Errorf("%s: the wait ended with %v, the lease with %v", test.op, wait.why, hold.why)
			}
		}
		o.allOver(t)
	})
}

func TestObserverIsToldWhyALeaseIsOver(t *testing.T) {
	for what, test := range map[string]struct {
		end  func(r *rig, c *holdfast.Client, l *holdfast.Lease)
		want error
	}{
		"unlocked": {func(r *rig, _ *holdfast.Client, l *holdfast.Lease) { r.unlock(l) }, holdfast.ErrNotHeld},
		"unlocked twice": {func(r *rig, _ *holdfast.Client, l *holdfast.Lease) {
			r.unlock(l)
			l.Unlock(r.Context()) //nolint:errcheck // it must not be heard of again
		}, holdfast.ErrNotHeld},
		"store lost its data": {func(r *rig, _ *holdfast.Client, _ *holdfast.Lease) { r.server.Restart(false) }, holdfast.ErrLost},
		"broken": {func(r *rig, c *holdfast.Client, l *holdfast.Lease) {
			if err := c.Break(r.Context(), "x", l.Token()); err != nil {
				r.Fatal(err)
			}
		}, holdfast.ErrLost},
		"run out":         {func(r *rig, _ *holdfast.Client, _ *holdfast.Lease) { r.pass(ttl) }, holdfast.ErrLost},
		"run out, asked":  {func(_ *rig, _ *holdfast.Client, l *holdfast.Lease) { time.Sleep(ttl); _ = l.Err() }, holdfast.ErrLost},
		"closed":          {func(_ *rig, c *holdfast.Client, _ *holdfast.Lease) { c.Close() }, holdfast.ErrClosed},
		"lost and closed": {func(r *rig, c *holdfast.Client, _ *holdfast.Lease) { r.pass(ttl); c.Close() }, holdfast.ErrLost},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				c, o := r.observed()
				l := r.lock(c.Mutex("x", holdfast.FixedTTL(ttl)).Lock)
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
		})
	}
}

func TestObserverSeesDowngrade(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, o := r.observed()
		l := r.lock(c.RWMutex("x").Lock)
		shared, err := l.Downgrade(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if waits, holds := o.counts(); waits != 1 || holds != 2 {
			t.Fatalf("%d waits, %d leases", waits, holds)
		}
		first, second := o.holds[0], o.last(&o.holds)
		if first.ends != 1 || !errors.Is(first.why, holdfast.ErrNotHeld) {
			t.Errorf("the writer's was over %d times, with %v", first.ends, first.why)
		}
		if second.token != shared.Token() || !second.Shared() || second.Units != 1 || second.Name != "x" || second.Store != "memory" || second.ends != 0 {
			t.Errorf("the reader's is %+v", second)
		}
		r.unlock(shared)
		o.allOver(t)
	})
}

func TestObserverIsToldWhyNothingWasGot(t *testing.T) {
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
		"trylock":   {func(c *holdfast.Client) locker { return c.Mutex("x").TryLock }, nil, holdfast.ErrLocked},
		"tryrlock":  {func(c *holdfast.Client) locker { return c.RWMutex("x").TryRLock }, nil, holdfast.ErrLocked},
		"deadline":  {func(c *holdfast.Client) locker { return timeout(c.Mutex("x").Lock) }, nil, context.DeadlineExceeded},
		"Wait":      {func(c *holdfast.Client) locker { return c.Mutex("x", holdfast.Wait(time.Second)).Lock }, nil, holdfast.ErrLocked},
		"cancelled": {func(c *holdfast.Client) locker { return c.Mutex("x").Lock }, func(_ *rig, _ *holdfast.Client, wait *call) { wait.end() }, context.Canceled},
		"closed":    {func(c *holdfast.Client) locker { return c.Mutex("x").Lock }, func(_ *rig, c *holdfast.Client, _ *call) { c.Close() }, holdfast.ErrClosed},
		"mismatch":  {func(c *holdfast.Client) locker { return units(c.Semaphore("x", 5), 1) }, nil, holdfast.ErrMismatch},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
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
				if seen := o.last(&o.waits); wait.err == nil || !errors.Is(seen.why, test.want) || !errors.Is(wait.err, seen.why) {
					t.Errorf("it was over with %v; the call got %v", seen.why, wait.err)
				}
				o.allOver(t)
			})
		})
	}
}

// TestObserverIsNotToldOfWrongCalls: what cannot be asked for is no wait.
func TestObserverIsNotToldOfWrongCalls(t *testing.T) {
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

func TestObserverIsToldOfRenewals(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		const leases = 20
		o := &recorder{}
		n := &counter{Store: r.server.Connect()}
		c := holdfast.New(n, holdfast.Observe(o))
		r.Cleanup(func() { c.Close() })
		for i := range leases {
			r.lock(c.Mutex(fmt.Sprint(i)).Lock)
		}
		r.pass(10*ttl + ttl/6)
		kept := 0
		for _, one := range o.renewals {
			kept += one.claims
			if one.store != "memory" || one.err != nil || one.took < 0 || one.claims < 1 {
				t.Errorf("%+v", one)
			}
		}
		if int64(len(o.renewals)) != n.keeps.Load() || int64(kept) != n.kept.Load() || kept < 20*leases {
			t.Errorf("%d renewals of %d claims; the store has seen %d of %d", len(o.renewals), kept, n.keeps.Load(), n.kept.Load())
		}
		if len(o.jeopardies) != 0 {
			t.Errorf("%d times in jeopardy", len(o.jeopardies))
		}
	})
}

func TestObserverIsToldHowLongARenewalTook(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		o := &recorder{}
		c, link := r.linked(holdfast.Observe(o))
		r.lock(c.Mutex("x").Lock)
		release := link.HoldReplies()
		r.pass(ttl/3 + time.Second)
		release()
		synctest.Wait()
		if len(o.renewals) != 1 || o.renewals[0].claims != 1 || o.renewals[0].err != nil ||
			o.renewals[0].took < time.Second || o.renewals[0].took > ttl/10 {
			t.Fatalf("got %+v", o.renewals)
		}
	})
}

func TestObserverIsToldOfJeopardy(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		o := &recorder{}
		c, link := r.linked(holdfast.Observe(o))
		other := r.client()
		l := r.lock(c.Mutex("x").Lock)
		r.lock(other.Mutex("y").Lock)
		waiter := r.begin(c.Mutex("y").Lock) // is kept too, and has nothing to lose
		link.Cut()
		r.pass(ttl / 2)
		link.Heal()
		r.pass(ttl / 6)
		few := len(o.jeopardies)
		if few == 0 || l.Err() != nil {
			t.Fatalf("%d times in jeopardy; the lease says %v", few, l.Err())
		}
		r.pass(10 * ttl)
		if len(o.jeopardies) != few {
			t.Fatal("a healthy lease is in jeopardy")
		}
		link.Cut()
		r.pass(2 * ttl)
		for _, times := range [][]note{o.jeopardies[:few], o.jeopardies[few:]} {
			left := ttl
			for _, j := range times {
				var fault *store.Fault
				if j.Name != "x" || j.Store != "memory" || j.Shared() || j.token != l.Token() || !errors.As(j.err, &fault) {
					t.Errorf("%+v", j)
				}
				if j.left >= left || j.left < 0 {
					t.Errorf("%v are left after %v", j.left, left)
				}
				left = j.left
			}
		}
		failed := slices.ContainsFunc(o.renewals, func(one renewal) bool { return one.err != nil })
		if hold := o.last(&o.holds); !failed || !errors.Is(hold.why, holdfast.ErrLost) || len(o.jeopardies) <= few {
			t.Errorf("failed: %v, the lease was over with %v, %d times in jeopardy", failed, hold.why, len(o.jeopardies))
		}
		waiter.end()
		synctest.Wait()
		o.allOver(t)
	})
}

func TestObserverIsToldOfHandOver(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, o := r.observed()
		l := r.lock(c.Mutex("x").Lock)
		var waiters []*call
		for range 3 {
			waiters = append(waiters, r.begin(c.Mutex("x").Lock))
		}
		for i, w := range waiters {
			r.unlock(l)
			if synctest.Wait(); !w.holds() || len(o.handed) != i+1 {
				t.Fatalf("after %d: held %v, handed over %d times", i, w.holds(), len(o.handed))
			}
			if got := o.handed[i]; got.Name != "x" || got.Op != "lock" || got.token != w.lease.Token() || o.last(&o.holds).token != got.token {
				t.Errorf("%+v, the lease has %v", got, w.lease.Token())
			}
			l = w.lease
		}
		r.unlock(l)
		if waits, holds := o.counts(); waits != 4 || holds != 4 || len(o.handed) != 3 {
			t.Errorf("%d waits, %d leases, handed over %d times", waits, holds, len(o.handed))
		}
		o.allOver(t)
	})
}

func TestObserverIsToldOfDeadlock(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, o := r.observed()
		x, y := r.lock(c.Mutex("x").Lock), r.lock(c.Mutex("y").Lock)
		calls := []*call{r.begin(under(x, c.Mutex("y").Lock)), r.begin(under(y, c.Mutex("x").Lock))}
		r.pass(2 * time.Second)
		victim := slices.IndexFunc(calls, (*call).done)
		if victim < 0 || len(o.deadlocks) != 1 {
			t.Fatalf("%d is the victim, %d were told", victim, len(o.deadlocks))
		}
		if got := o.deadlocks[0]; got.Name != []string{"y", "x"}[victim] || got.Op != "lock" || !errors.Is(got.err, holdfast.ErrDeadlock) {
			t.Errorf("%+v", got)
		}
		if seen := o.waits[2+victim]; seen.ends != 1 || !errors.Is(seen.why, holdfast.ErrDeadlock) {
			t.Errorf("its wait was over %d times, with %v", seen.ends, seen.why)
		}
		r.unlock([]*holdfast.Lease{x, y}[victim])
		<-calls[1-victim].returned
		r.unlock(calls[1-victim].lease)
		r.unlock([]*holdfast.Lease{x, y}[1-victim])
		o.allOver(t)
	})
}

// TestObserverContexts: what an Observer puts into a context is found where the lease is used, however it was got.
func TestObserverContexts(t *testing.T) {
	type key struct{}
	bubble(t, func(t *testing.T, r *rig) {
		c, o := r.observed(holdfast.Reentrant())
		outside := context.WithValue(t.Context(), key{}, "outside")
		check := func(what string, ctx context.Context, waited bool) {
			t.Helper()
			o.mu.Lock()
			defer o.mu.Unlock()
			hold, _ := ctx.Value(holdKey{}).(int)
			if hold != len(o.holds) || ctx.Value(key{}) != "outside" {
				t.Fatalf("%s: lease %d of %d, value %v", what, hold, len(o.holds), ctx.Value(key{}))
			}
			wait, _ := ctx.Value(waitKey{}).(int)
			if waited && (wait != len(o.waits) || o.holds[hold-1].given.Value(waitKey{}) != wait) {
				t.Fatalf("%s: wait %d of %d", what, wait, len(o.waits))
			}
		}
		within := func(lock locker) locker {
			return func(ctx context.Context) (*holdfast.Lease, error) {
				return lock(context.WithValue(ctx, key{}, "outside"))
			}
		}
		l := r.lock(within(c.Mutex("x").Lock))
		check("Lock", l.Context(), true)
		again, err := c.Mutex("x").Lock(l.Context())
		if err != nil {
			t.Fatal(err)
		}
		check("re-entered", again.Context(), false)
		r.unlock(again)

		next := r.begin(within(c.Mutex("x").Lock))
		r.unlock(l)
		<-next.returned
		check("handed over", next.lease.Context(), true)

		pushed := r.begin(within(c.Mutex("x", holdfast.HandOver(0, 0)).Lock))
		r.pass(time.Second)
		r.unlock(next.lease)
		<-pushed.returned
		check("granted by a push", pushed.lease.Context(), true)

		shared, err := pushed.lease.Downgrade(outside)
		if err != nil {
			t.Fatal(err)
		}
		check("downgraded", shared.Context(), false)
		r.unlock(shared)

		if err := c.Mutex("x").Do(outside, func(ctx context.Context) error { check("Do", ctx, true); return nil }); err != nil {
			t.Fatal(err)
		}
		m, err := holdfast.LockAll(outside, mutexes(c, "x", "y", "z")...)
		if err != nil {
			t.Fatal(err)
		}
		check("LockAll", m.Context(), true)
		if err := m.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Election("x").Run(outside, func(ctx context.Context) error { check("Run", ctx, true); return nil }); err != nil {
			t.Fatal(err)
		}
		o.allOver(t)
	})
}

// TestObserverAndReentrance: what is taken again is not waited for, but each lease is one of its own, and over once.
func TestObserverAndReentrance(t *testing.T) {
	for what, end := range map[string]struct {
		do  func(r *rig, c *holdfast.Client, leases []*holdfast.Lease)
		why error
	}{
		"given back": {func(r *rig, _ *holdfast.Client, leases []*holdfast.Lease) {
			for _, i := range []int{1, 0, 2} {
				r.unlock(leases[i])
			}
		}, holdfast.ErrNotHeld},
		"lost":   {func(r *rig, _ *holdfast.Client, _ []*holdfast.Lease) { r.server.Restart(false); r.pass(time.Second) }, holdfast.ErrLost},
		"closed": {func(_ *rig, c *holdfast.Client, _ []*holdfast.Lease) { c.Close() }, holdfast.ErrClosed},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				c, o := r.observed(holdfast.Reentrant())
				leases := []*holdfast.Lease{r.lock(c.Mutex("x").Lock)}
				for _, lock := range []locker{c.Mutex("x").Lock, c.RWMutex("x").RLock} {
					l, err := lock(leases[0].Context())
					if err != nil {
						t.Fatal(err)
					}
					leases = append(leases, l)
				}
				if waits, holds := o.counts(); waits != 1 || holds != 3 {
					t.Errorf("%d waits, %d leases", waits, holds)
				}
				end.do(r, c, leases)
				for i, hold := range o.holds {
					if hold.token != leases[0].Token() || hold.Op != []string{"lock", "lock", "rlock"}[i] || !errors.Is(hold.why, end.why) {
						t.Errorf("lease %d is %s with %v, over with %v", i, hold.Op, hold.token, hold.why)
					}
				}
				o.allOver(t)
			})
		})
	}
}

// TestObserverSeesEachEndOnce: whatever comes together, a wait and a lease are over once each.
func TestObserverSeesEachEndOnce(t *testing.T) {
	for seed := range uint64(20) {
		bubble(t, func(t *testing.T, r *rig) {
			chance := rand.New(rand.NewPCG(seed, 0))
			o := &recorder{}
			var wg sync.WaitGroup
			for range 2 {
				c, link := r.linked(holdfast.Observe(o), holdfast.TTL(time.Second))
				for range 8 {
					wait, hold := time.Duration(chance.Int64N(int64(2*time.Second))), time.Duration(chance.Int64N(int64(time.Second)))
					wg.Go(func() {
						for range 5 {
							ctx, cancel := context.WithTimeout(t.Context(), wait)
							l, err := c.Mutex("x").Lock(ctx)
							if cancel(); err == nil {
								time.Sleep(hold)
								l.Unlock(t.Context()) //nolint:errcheck // it may be lost
							}
						}
					})
				}
				cut, heal, end := time.Duration(chance.Int64N(int64(3*time.Second))), time.Duration(chance.Int64N(int64(3*time.Second))), chance.IntN(2) == 0
				wg.Go(func() {
					time.Sleep(cut)
					link.Cut()
					time.Sleep(heal)
					link.Heal()
					if end {
						c.Close()
					}
				})
			}
			wg.Wait()
			r.pass(10 * time.Second)
			o.allOver(t)
			if waits, _ := o.counts(); waits < 16 {
				t.Errorf("only %d waits", waits)
			}
		})
	}
}

func TestObserverIsForClients(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, n := r.counted()
		for what, option := range map[string]holdfast.Option{
			"Observe":      holdfast.Observe(&recorder{}),
			"Observe(nil)": holdfast.Observe(nil),
			"Logger":       holdfast.Logger(slog.New(slog.DiscardHandler)),
		} {
			for _, lock := range []locker{
				c.Mutex("x", option).Lock, c.RWMutex("x", option).RLock, c.Election("x", option).Campaign,
				units(c.Semaphore("x", 5, option), 1),
			} {
				if _, err := lock(t.Context()); !errors.Is(err, holdfast.ErrBadOption) {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
		if n.joins.Load() != 0 {
			t.Errorf("%d were joined", n.joins.Load())
		}
		if _, err := r.client(holdfast.Observe(nil)).Mutex("x").Lock(t.Context()); !errors.Is(err, holdfast.ErrBadOption) {
			t.Errorf("Observe(nil) for a client: %v", err)
		}
		if _, err := holdfast.Open(t.Context(), "memory:", holdfast.Observe(nil)); !errors.Is(err, holdfast.ErrBadOption) {
			t.Errorf("Observe(nil) for Open: %v", err)
		}
		// A client that has one gives its locks other options all the same.
		client, o := r.observed(holdfast.Logger(slog.New(slog.DiscardHandler)))
		r.unlock(r.lock(client.Mutex("x", holdfast.Label("other")).Lock))
		if waits, holds := o.counts(); waits != 1 || holds != 1 {
			t.Errorf("%d waits, %d leases", waits, holds)
		}
	})
}

// TestNopObserver: an Observer may do nothing, and return no functions.
func TestNopObserver(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked(holdfast.Observe(holdfast.NopObserver{}))
		l := r.lock(c.Mutex("x").Lock)
		next := r.begin(c.Mutex("x").Lock)
		r.unlock(l)
		<-next.returned
		if _, err := c.Mutex("x").TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) {
			t.Errorf("got %v", err)
		}
		link.Cut()
		r.pass(2 * ttl)
		if !errors.Is(next.lease.Err(), holdfast.ErrLost) {
			t.Errorf("it says %v", next.lease.Err())
		}
	})
}

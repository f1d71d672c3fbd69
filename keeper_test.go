package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// TestCalls: what locks that are held shortly cost in calls of the store.
func TestCalls(t *testing.T) {
	for what, test := range map[string]struct {
		run                  func(r *rig, c *holdfast.Client)
		joins, leaves, keeps int64
	}{
		"ten locks one after the other": {func(r *rig, c *holdfast.Client) {
			for range 10 {
				r.unlock(r.lock(c.Mutex("x").Lock))
			}
		}, 10, 10, 0},
		"LockAll of ten": {func(r *rig, c *holdfast.Client) {
			var parts []holdfast.Part
			for i := range 10 {
				parts = append(parts, c.Mutex(fmt.Sprint(i)))
			}
			r.must(r.lockAll(parts...).Unlock(r.Context()))
		}, 10, 10, 0},
		"a grant by a push": {func(r *rig, c *holdfast.Client) {
			first := r.lock(r.client().Mutex("x").Lock)
			next := r.begin(c.Mutex("x").Lock)
			r.unlock(first)
			r.holds(next, "it was not granted")
			r.unlock(next.lease)
		}, 1, 1, 0},
		"handed over, with a standby": {func(r *rig, c *holdfast.Client) {
			first := r.lock(c.Mutex("x").Lock)
			next := r.begin(c.Mutex("x").Lock)
			r.unlock(first)
			r.holds(next, "it was not handed over")
			r.unlock(next.lease)
		}, 2, 2, 0},
	} {
		scene(t, what, func(t *testing.T, r *rig) {
			c, d := r.counted()
			test.run(r, c)
			r.pass(ttl)
			if d.joins.Load() != test.joins || d.leaves.Load() != test.leaves || d.keeps.Load() != test.keeps {
				t.Fatalf("%d joins, %d leaves, %d keeps", d.joins.Load(), d.leaves.Load(), d.keeps.Load())
			}
		})
	}
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

func TestKeepWithTooFewStatusesIsNotBelieved(t *testing.T) {
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

// deafStore returns no statuses from Keep.
type deafStore struct{ store.Store }

func (deafStore) Keep(context.Context, []store.Claim) ([]store.Status, error) { return nil, nil }

// TestHungCallsDoNotHoldUpOthers: four calls about claims with a long ttl hang, which is all that may be under way at
// once. They are given up soon enough for a lock with a short ttl, for which the store would respond.
func TestHungCallsDoNotHoldUpOthers(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var hung atomic.Int32
		d := &detour{}
		d.keep = func(ctx context.Context, cs []store.Claim) error {
			if cs[0].TTL == time.Hour && hung.Add(1) <= 4 {
				return hang(ctx)
			}
			return nil
		}
		c := r.around(d)
		for i := range 4 {
			r.lock(c.Mutex(fmt.Sprint(i), holdfast.WithTTL(time.Hour)).Lock)
			d.push(store.Everyone, store.Status{})
			synctest.Wait()
		}
		if hung.Load() != 4 {
			t.Fatalf("%d calls hang", hung.Load())
		}
		short := r.lock(c.Mutex("short", holdfast.WithTTL(12*time.Second)).Lock) // due after 4 s
		r.pass(6 * time.Second)
		if left := time.Until(short.Until()); short.Err() != nil || left < 10*time.Second {
			t.Fatalf("it was not kept: %v left, %v", left, short.Err())
		}
		r.pass(time.Minute)
		if short.Err() != nil {
			t.Fatalf("the store responds for it, and it was lost: %v", short.Err())
		}
	})
}

// A partlySilent store takes all the time that there is, and then knows of one claim only.
type partlySilent struct{ store.Store }

func (p partlySilent) Keep(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
	<-ctx.Done()
	standings, err := p.Store.Keep(context.WithoutCancel(ctx), cs)
	for i := range cs {
		if cs[i].Name != "answered" {
			standings[i] = store.Status{Err: ctx.Err()}
		}
	}
	return standings, err
}

// TestPartlySilentStore: a Keep has the status of one claim, and for others only the error of its context. That time is
// the keeper's own: callers learn that the store was silent, and not that a deadline has passed.
func TestPartlySilentStore(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := holdfast.New(partlySilent{r.server.Connect()})
		defer c.Close()
		r.lock(r.client().Mutex("taken").Lock)
		answered, silent := r.lock(c.Mutex("answered").Lock), r.lock(c.Mutex("silent").Lock)
		ctx, cancel := context.WithCancel(t.Context())
		waiter := r.begin(func(context.Context) (*holdfast.Lease, error) { return c.Mutex("taken").Lock(ctx) })
		r.pass(ttl * 3 / 4)
		cancel()
		r.pass(ttl)
		if answered.Err() != nil {
			t.Errorf("a claim with a response is lost: %v", answered.Err())
		}
		for err, want := range map[error]error{silent.Err(): holdfast.ErrLost, waiter.err: context.Canceled} {
			if !errors.Is(err, want) || errors.Is(err, context.DeadlineExceeded) ||
				!strings.Contains(err.Error(), "no response in") {
				t.Errorf("%v, want %v", err, want)
			}
		}
	})
}

// TestHungKeepIsRepeatedInTime: nothing is cut, and no error comes. A call just never gets a response.
func TestHungKeepIsRepeatedInTime(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, ttl, time.Hour} {
		scene(t, ttl.String(), func(t *testing.T, r *rig) {
			var asked []time.Time // the times of the calls
			c := r.around(&detour{keep: func(ctx context.Context, _ []store.Claim) error {
				if asked = append(asked, time.Now()); len(asked) == 1 {
					return hang(ctx)
				}
				return nil
			}}, holdfast.WithTTL(ttl))
			l := r.lock(c.Mutex("x").Lock)
			r.pass(ttl + time.Millisecond)
			if l.Err() != nil {
				t.Fatalf("one hung call cost the lease: %v", l.Err())
			}
			patience := min(ttl/4, 5*time.Second)
			if took := asked[1].Sub(asked[0]); took < patience || took > patience+min(ttl/48, time.Second) {
				t.Fatalf("it was repeated after %v", took)
			}
		})
	}
}

// TestShortTTLLeavesTimeToRespond: a quarter of a very short ttl is less than a busy machine takes.
func TestShortTTLLeavesTimeToRespond(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.around(&detour{keep: func(ctx context.Context, _ []store.Claim) error {
			return slow(ctx, 40*time.Millisecond)
		}}, holdfast.WithTTL(100*time.Millisecond))
		l := r.lock(c.Mutex("x").Lock)
		r.pass(time.Second)
		if l.Err() != nil {
			t.Fatalf("every call got a response, and it was lost: %v", l.Err())
		}
	})
}

// TestStoreThatGrantsLessThanTheTTL is called more often, but not without a pause.
func TestStoreThatGrantsLessThanTheTTL(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		d := &detour{answer: func(_ store.Claim, s *store.Status) { s.Until = time.Now().Add(ttl / 10) }}
		d.joined = func(c store.Claim, s *store.Status) error { d.answer(c, s); return nil }
		d.keep = func(ctx context.Context, _ []store.Claim) error {
			if d.keeps.Load() > 1000 {
				return hang(ctx) // no time would pass
			}
			return nil
		}
		l := r.lock(r.around(d).Mutex("x").Lock)
		r.pass(ttl)
		if l.Err() != nil || d.keeps.Load() > 100 {
			t.Fatalf("%v after %d keeps", l.Err(), d.keeps.Load())
		}
	})
}

// TestRetriesWaitForTheirTime: what is due soon goes along when the keeper is awake, but not what has just failed. A
// busy client would call a failing store without a pause.
func TestRetriesWaitForTheirTime(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, n := r.counted()
		n.lie(func(_ store.Claim, s *store.Status) { s.Err = errDown })
		r.lock(c.Mutex("failing").Lock)
		r.pass(ttl / 3)
		for range 200 {
			r.unlock(r.lock(c.Mutex("brief", holdfast.WithTTL(100*time.Millisecond)).Lock)) // sets an early alarm
			r.pass(50 * time.Millisecond)
		}
		if got := n.keeps.Load(); got < 10 || got > 25 {
			t.Fatalf("it was asked %d times in ten seconds", got)
		}
	})
}

// TestRecheckAt: a store that does not push reports when to call Keep.
func TestRecheckAt(t *testing.T) {
	for what, test := range map[string]struct {
		in          time.Duration // when to call Keep, as the store reports
		least, most int64         // how often it is called in 9 s
	}{
		"soon":                                {2 * time.Second, 4, 8},
		"in the past: as soon as is bearable": {-time.Hour, 1000, 9001},
		"later than it would be asked anyway": {time.Hour, 0, 0},
	} {
		scene(t, what, func(t *testing.T, r *rig) {
			d := &detour{deaf: true}
			d.answer = func(_ store.Claim, s *store.Status) { s.RecheckAt = time.Now().Add(test.in) }
			d.joined = func(c store.Claim, s *store.Status) error { d.answer(c, s); return nil }
			c := r.around(d)
			first := r.lock(r.client().Mutex("x").Lock)
			waiter := r.begin(c.Mutex("x").Lock)
			r.pass(9 * time.Second)
			if n := d.keeps.Load(); n < test.least || n > test.most {
				t.Fatalf("it was asked %d times", n)
			}
			r.unlock(first)
			r.pass(min(max(test.in, time.Millisecond), ttl/3))
			r.holds(waiter, "it was not asked in time")
			d.keeps.Store(0)
			if r.pass(9 * time.Second); d.keeps.Load() > 1 {
				t.Fatalf("what is held was asked for %d times", d.keeps.Load())
			}
		})
	}
}

// TestRecheckedWhenACallWasUnderWay: its response may be older than what happened in the meantime.
func TestRecheckedWhenACallWasUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, n, link := r.countedLink()
		first := r.lock(r.client().Mutex("x").Lock)
		waiter := r.begin(c.Mutex("x").Lock)
		release := link.HoldReplies()
		r.pass(ttl/3 + time.Second)
		if n.keeps.Load() != 1 {
			t.Fatalf("%d keeps are under way", n.keeps.Load())
		}
		link.DropPushes(true)
		r.unlock(first)
		link.DropPushes(false)
		r.server.Restart(true) // while the response is on its way, which has Waiting
		release()
		r.holds(waiter, "it was not asked again")
		if n.keeps.Load() != 2 {
			t.Fatalf("%d keeps", n.keeps.Load())
		}
	})
}

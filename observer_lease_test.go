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

func TestObserverSeesRenewals(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		const leases = 20
		o := &recorder{}
		c, n := r.counted(holdfast.WithObserver(o))
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
			t.Errorf("%d renewals of %d claims; the store has seen %d of %d", len(o.renewals), kept, n.keeps.Load(),
				n.kept.Load())
		}
		if len(o.jeopardies) != 0 {
			t.Errorf("%d times in jeopardy", len(o.jeopardies))
		}
	})
}

func TestObserverSeesTheDurationOfRenewals(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		o := &recorder{}
		c, link := r.linked(holdfast.WithObserver(o))
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

func TestObserverSeesJeopardy(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		o := &recorder{}
		c, link := r.linked(holdfast.WithObserver(o))
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
				if j.Name != "x" || j.Store != "memory" || j.Shared() || j.token != l.Token() ||
					!errors.As(j.err, &fault) {
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
			t.Errorf("failed: %v, the lease was over with %v, %d times in jeopardy", failed, hold.why,
				len(o.jeopardies))
		}
		waiter.end()
		synctest.Wait()
		o.allOver(t)
	})
}

func TestObserverSeesHandOver(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, o := r.observed()
		l := r.lock(c.Mutex("x").Lock)
		waiters := r.beginMany(3, c.Mutex("x").Lock)
		for i, w := range waiters {
			r.unlock(l)
			if synctest.Wait(); !w.holds() || len(o.handed) != i+1 {
				t.Fatalf("after %d: held %v, handed over %d times", i, w.holds(), len(o.handed))
			}
			if got := o.handed[i]; got.Name != "x" || got.Op != "lock" || got.token != w.lease.Token() ||
				o.last(&o.holds).token != got.token {
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

func TestObserverSeesDeadlock(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, o := r.observed()
		x, y := r.lock(c.Mutex("x").Lock), r.lock(c.Mutex("y").Lock)
		calls := []*call{r.begin(under(x, c.Mutex("y").Lock)), r.begin(under(y, c.Mutex("x").Lock))}
		r.pass(2 * time.Second)
		victim := slices.IndexFunc(calls, (*call).done)
		if victim < 0 || len(o.deadlocks) != 1 {
			t.Fatalf("%d is the victim, %d got the error", victim, len(o.deadlocks))
		}
		if got := o.deadlocks[0]; got.Name != []string{"y", "x"}[victim] || got.Op != "lock" ||
			!errors.Is(got.err, holdfast.ErrDeadlock) {
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

// TestObserverContexts: what an Observer puts into a context is found where the lease is used, however it was acquired.
func TestObserverContexts(t *testing.T) {
	type key struct{}
	bubble(t, func(t *testing.T, r *rig) {
		c, o := r.observed(holdfast.WithReentrance())
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
		again := r.lease(c.Mutex("x").Lock(l.Context()))
		check("re-entered", again.Context(), false)
		r.unlock(again)

		next := r.begin(within(c.Mutex("x").Lock))
		r.unlock(l)
		<-next.returned
		check("handed over", next.lease.Context(), true)

		pushed := r.begin(within(c.Mutex("x", holdfast.WithHandOver(0, 0)).Lock))
		r.pass(time.Second)
		r.unlock(next.lease)
		<-pushed.returned
		check("granted by a push", pushed.lease.Context(), true)

		shared := r.lease(pushed.lease.Downgrade(outside))
		check("downgraded", shared.Context(), false)
		r.unlock(shared)

		r.must(c.Mutex("x").Do(outside, func(ctx context.Context) error { check("Do", ctx, true); return nil }))
		m, err := holdfast.LockAll(outside, mutexes(c, "x", "y", "z")...)
		if err != nil {
			t.Fatal(err)
		}
		check("LockAll", m.Context(), true)
		r.must(m.Unlock(t.Context()))
		r.must(c.Election("x").Run(outside, func(ctx context.Context) error { check("Run", ctx, true); return nil }))
		o.allOver(t)
	})
}

// TestObserverAndReentrance: what is taken again is not waited for, but each lease is one of its own, and over once.
func TestObserverAndReentrance(t *testing.T) {
	for what, end := range map[string]struct {
		do  func(r *rig, c *holdfast.Client, leases []*holdfast.Lease)
		why error
	}{
		"unlocked": {func(r *rig, _ *holdfast.Client, leases []*holdfast.Lease) {
			for _, i := range []int{1, 0, 2} {
				r.unlock(leases[i])
			}
		}, holdfast.ErrNotHeld},
		"lost": {func(r *rig, _ *holdfast.Client,
			_ []*holdfast.Lease) {
			r.server.Restart(false)
			r.pass(time.Second)
		}, holdfast.ErrLost},
		"closed": {func(_ *rig, c *holdfast.Client, _ []*holdfast.Lease) { c.Close() }, holdfast.ErrClosed},
	} {
		scene(t, what, func(t *testing.T, r *rig) {
			c, o := r.observed(holdfast.WithReentrance())
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
				if hold.token != leases[0].Token() || hold.Op != []string{"lock", "lock", "rlock"}[i] ||
					!errors.Is(hold.why, end.why) {
					t.Errorf("lease %d is %s with %v, over with %v", i, hold.Op, hold.token, hold.why)
				}
			}
			o.allOver(t)
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
				c, link := r.linked(holdfast.WithObserver(o), holdfast.WithTTL(time.Second))
				for range 8 {
					wait, hold := time.Duration(chance.Int64N(int64(2*time.Second))),
						time.Duration(chance.Int64N(int64(time.Second)))
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
				cut, heal, end := time.Duration(chance.Int64N(int64(3*time.Second))),
					time.Duration(chance.Int64N(int64(3*time.Second))), chance.IntN(2) == 0
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
			"Observe":      holdfast.WithObserver(&recorder{}),
			"Observe(nil)": holdfast.WithObserver(nil),
			"Logger":       holdfast.WithLogger(slog.New(slog.DiscardHandler)),
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
		r.refused("Observe(nil) for a client", r.client(holdfast.WithObserver(nil)).Mutex("x").Lock,
			holdfast.ErrBadOption)
		if _, err := holdfast.Open(t.Context(), "memory:", holdfast.WithObserver(nil)); !errors.Is(err,
			holdfast.ErrBadOption) {
			t.Errorf("Observe(nil) for Open: %v", err)
		}
		// A client that has one gives its locks other options all the same.
		client, o := r.observed(holdfast.WithLogger(slog.New(slog.DiscardHandler)))
		r.unlock(r.lock(client.Mutex("x", holdfast.WithLabel("other")).Lock))
		if waits, holds := o.counts(); waits != 1 || holds != 1 {
			t.Errorf("%d waits, %d leases", waits, holds)
		}
	})
}

// TestNopObserver: an Observer may do nothing, and return no functions.
func TestNopObserver(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked(holdfast.WithObserver(holdfast.NopObserver{}))
		l := r.lock(c.Mutex("x").Lock)
		next := r.begin(c.Mutex("x").Lock)
		r.unlock(l)
		<-next.returned
		r.refused("it is held", c.Mutex("x").TryLock, holdfast.ErrLocked)
		link.Cut()
		r.pass(2 * ttl)
		if !errors.Is(next.lease.Err(), holdfast.ErrLost) {
			t.Errorf("it says %v", next.lease.Err())
		}
	})
}

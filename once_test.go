package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// fleet runs a job that takes a millisecond on three machines whose clocks differ by ten seconds, and returns how often
// it ran.
func (r *rig) fleet(run func(c *holdfast.Client, job func())) (ran int) {
	job := func() { ran++; time.Sleep(time.Millisecond) }
	for range 3 {
		run(r.client(), job)
		r.pass(10 * time.Second)
	}
	return ran
}

// TestShortJobRunsOnEachMachine is the bug: a lock alone does not keep a short job from running once on each machine.
func TestShortJobRunsOnEachMachine(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		ran := r.fleet(func(c *holdfast.Client, job func()) {
			l, err := c.Mutex("job").TryLock(t.Context())
			if err != nil {
				return
			}
			job()
			r.unlock(l)
		})
		if ran != 3 {
			t.Errorf("it ran %d times: this test shows nothing", ran)
		}
	})
}

// TestAtLeast: with WithAtLeast the same job runs once, also if each process exits after Unlock, and its lock is free
// when the time has passed.
func TestAtLeast(t *testing.T) {
	for name, end := range map[string]func(*holdfast.Client, *holdfast.Lease) error{
		"unlocked": func(_ *holdfast.Client, l *holdfast.Lease) error { return l.Unlock(context.Background()) },
		"exit": func(c *holdfast.Client, l *holdfast.Lease) error {
			return errors.Join(l.Unlock(context.Background()), c.Close())
		},
		"closed": func(c *holdfast.Client, _ *holdfast.Lease) error { return c.Close() },
	} {
		scene(t, name, func(t *testing.T, r *rig) {
			began := time.Now()
			ran := r.fleet(func(c *holdfast.Client, job func()) {
				l, err := c.Mutex("job", holdfast.WithAtLeast(50*time.Second)).TryLock(t.Context())
				if err != nil {
					return
				}
				job()
				r.must(end(c, l))
				if l.Err() == nil {
					t.Error("the lease is held after its end")
				}
			})
			if ran != 1 {
				t.Errorf("it ran %d times", ran)
			}
			r.pass(49*time.Second - time.Since(began))
			r.refused("before the time has passed", r.client().Mutex("job").TryLock, holdfast.ErrLocked)
			r.pass(2 * time.Second)
			r.lock(r.client().Mutex("job").TryLock)
		})
	}
}

// TestAtLeastIsOver: a lock that was held for longer is free at once.
func TestAtLeastIsOver(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		l := r.lock(r.client().Mutex("job", holdfast.WithAtLeast(ttl)).Lock)
		waiter := r.begin(r.client().Mutex("job").Lock)
		r.pass(5 * ttl)
		r.unlock(l)
		r.holds(waiter, "it was held for longer than the least time")
	})
}

// TestAtLeastInOneProcess: goroutines of one process wait for the time too, and a wait that was given up costs none.
func TestAtLeastInOneProcess(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.client().Mutex("job", holdfast.WithAtLeast(ttl))
		l := r.lock(m.Lock)
		next := r.begin(m.Lock)
		r.unlock(l)
		r.waits(next, "the time has not passed")
		r.pass(ttl + time.Second)
		r.holds(next, "the time has passed")
		late := r.begin(m.Lock)
		late.end()
		<-late.returned
		r.pass(ttl)
		r.unlock(next.lease)
		r.lock(m.TryLock)
	})
}

// TestAtLeastRetried: the store does not respond to Unlock, and learns of it later. The lock stays taken for its time.
func TestAtLeastRetried(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked(holdfast.WithTTL(ttl))
		l := r.lock(c.Mutex("job", holdfast.WithAtLeast(10*ttl)).Lock)
		link.Cut()
		if err := l.Unlock(t.Context()); err == nil {
			t.Error("Unlock without a connection succeeded")
		}
		r.pass(ttl / 2)
		link.Heal()
		r.pass(9 * ttl)
		r.refused("before the time has passed", r.client().Mutex("job").TryLock, holdfast.ErrLocked)
		r.pass(ttl)
		r.lock(r.client().Mutex("job").TryLock)
	})
}

// TestAtLeastOfSeveral: one of several locks is taken, so the caller gets none. The others are free at once, although
// they were acquired for a moment.
func TestAtLeastOfSeveral(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.lock(r.client().Mutex("b").Lock)
		c := r.client(holdfast.WithAtLeast(10 * ttl))
		if _, err := holdfast.TryLockAll(t.Context(), c.Mutex("a"), c.Mutex("b")); !errors.Is(err, holdfast.ErrLocked) {
			t.Fatal(err)
		}
		if _, err := holdfast.LockAll(r.within(ttl), c.Mutex("a"), c.Mutex("b")); !errors.Is(err, holdfast.ErrLocked) {
			t.Fatal(err)
		}
		r.pass(time.Second) // its release is sent in the background
		r.lock(r.client().Mutex("a").TryLock)
	})
}

// TestAtLeastForLong: the longest time that the store allows is not exceeded for the sake of its clock.
func TestAtLeastForLong(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		d := &longest{Store: r.server.Connect()}
		c := holdfast.New(d)
		defer c.Close()
		most := d.Abilities().MaxTTL
		r.unlock(r.lock(c.Mutex("job", holdfast.WithAtLeast(most)).Lock))
		if d.detached == 0 || d.detached > most {
			t.Errorf("detached for %v of %v", d.detached, most)
		}
	})
}

// A longest store notes for how long a claim was detached.
type longest struct {
	*memstore.Store
	detached time.Duration
}

func (s *longest) Detach(ctx context.Context, c store.Claim, as store.ID, d time.Duration) (store.Status, error) {
	s.detached = d
	return s.Store.Detach(ctx, c, as, d)
}

// TestOnce: a job runs once for each occasion, on one of the machines, and nothing is left of the occasion.
func TestOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		once := func(occasion string) int {
			return r.fleet(func(c *holdfast.Client, job func()) {
				called, err := c.Once(t.Context(), "report", occasion, time.Minute, func(context.Context) error {
					job()
					return errors.New("failed")
				})
				if called != (err != nil) {
					t.Errorf("called %v, and the error is %v", called, err)
				}
				r.must(c.Close())
			})
		}
		if ran := once("monday"); ran != 1 {
			t.Errorf("it ran %d times", ran)
		}
		if ran := once("tuesday"); ran != 1 {
			t.Errorf("on another occasion it ran %d times", ran)
		}
		r.pass(time.Minute)
		for name, err := range r.client().Names(t.Context(), "") {
			t.Errorf("%q is left, %v", name, err)
		}
	})
}

// TestOnceAfterDeath: the process dies while the job runs. The job does not run again on another machine.
func TestOnceAfterDeath(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked(holdfast.WithTTL(ttl))
		once := func(c *holdfast.Client, fn func(context.Context) error) bool {
			called, err := c.Once(t.Context(), "report", "today", 10*ttl, fn)
			r.must(err)
			return called
		}
		once(c, func(context.Context) error { link.Kill(); return nil })
		r.pass(5 * ttl)
		if once(r.client(), func(context.Context) error { return nil }) {
			t.Error("it ran again")
		}
		r.pass(6 * ttl)
		if !once(r.client(), func(context.Context) error { return nil }) {
			t.Error("the occasion was never forgotten")
		}
	})
}

// TestOnceUnknown: the store does not confirm the occasion. The job does not run, and another machine can run it.
func TestOnceUnknown(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked(holdfast.WithTTL(ttl))
		r.must(c.Ping(t.Context()))
		release := link.HoldReplies()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		called, err := c.Once(ctx, "report", "today", 10*ttl, func(context.Context) error {
			t.Error("it ran")
			return nil
		})
		if called || err == nil {
			t.Errorf("without a response: %v and %v", called, err)
		}
		release()
		r.pass(ttl)
		called, err = r.client().Once(t.Context(), "report", "today", ttl, func(context.Context) error { return nil })
		if !called || err != nil {
			t.Errorf("on another machine: %v and %v", called, err)
		}
	})
}

func TestOnceRefuses(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		fn := func(context.Context) error { t.Error("it ran"); return nil }
		for _, c := range []struct {
			name, occasion string
			keepFor        time.Duration
			why            error
		}{
			{"job", "", ttl, holdfast.ErrBadOption},
			{"job", "a@b", ttl, holdfast.ErrBadOption},
			{"job", "today", 0, holdfast.ErrBadTTL},
			{"job", "today", 1000 * 24 * time.Hour, holdfast.ErrBadTTL},
			{"job", string(make([]byte, 5000)), ttl, holdfast.ErrBadName},
		} {
			called, err := r.client().Once(t.Context(), c.name, c.occasion, c.keepFor, fn)
			if called || !errors.Is(err, c.why) {
				t.Errorf("%q, %.10q, %v: %v, want %v", c.name, c.occasion, c.keepFor, err, c.why)
			}
		}
	})
}

// TestLimitChange: a fleet is rolled out from two units to four and back, and no call fails.
func TestLimitChange(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		pool := func(limit int, options ...holdfast.Option) *holdfast.Semaphore {
			return r.client().Semaphore("pool", limit, options...)
		}
		change := holdfast.WithLimitChange()
		first := r.lock(units(pool(2, change), 2))
		if _, err := pool(4).TryAcquire(t.Context(), 1); !errors.Is(err, holdfast.ErrMismatch) {
			t.Errorf("without the option: %v", err)
		}
		second := r.lock(units(pool(4, change), 2))
		third := r.begin(units(pool(2, change), 1))
		r.waits(third, "four units are held, and it knows of two")
		r.unlock(first)
		r.waits(third, "two units are held, and it knows of two")
		r.unlock(second)
		r.holds(third, "no unit is held")
	})
}

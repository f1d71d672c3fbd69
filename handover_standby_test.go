package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

func TestHandOverStandby(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, n := r.counted()
		b := r.client()
		// One turn: it queues in the process, and each claim is held once.
		m := a.Mutex("x", holdfast.WithLabel("a"), holdfast.WithHandOver(1, time.Second))
		labels := func() (found []string) {
			for _, p := range r.queue(b, "x").Entries {
				found = append(found, p.Owner.Label)
			}
			return found
		}
		expect := func(when string, joins, leaves int64, queue ...string) {
			t.Helper()
			if synctest.Wait(); n.joins.Load() != joins || n.leaves.Load() != leaves || !slices.Equal(labels(), queue) {
				t.Errorf("%s: %d joins, %d leaves, queue %v; want %d, %d, %v", when, n.joins.Load(), n.leaves.Load(),
					labels(),
					joins, leaves, queue)
			}
		}
		first := r.lock(m.Lock)
		expect("alone", 1, 0, "a")
		other := r.begin(b.Mutex("x", holdfast.WithLabel("b")).Lock)
		waiters := r.beginMany(5, m.Lock)
		expect("others wait", 2, 0, "a", "b", "a")
		late := r.begin(b.Mutex("x", holdfast.WithLabel("b"), holdfast.WithHandOver(0, 0)).Lock)
		expect("another process comes later", 2, 0, "a", "b", "a", "b")
		r.unlock(first)
		expect("after the switch", 2, 1, "b", "a", "b")
		r.unlock(other.lease)
		expect("the standby is held, and there is a new one", 3, 1, "a", "b", "a")
		if !waiters[0].holds() || late.done() {
			t.Fatal("it is not the turn of the first that waited here")
		}
		r.unlock(waiters[0].lease)
		expect("the other's turn", 3, 2, "b", "a")
		r.unlock(late.lease)
		for _, w := range waiters[1:] {
			r.holds(w, "not in order of arrival")
			r.unlock(w.lease)
		}
		expect("at the end", 6, 6)
	})
}

// A standby that is removed, or cannot be sent, costs a position in the queue and nothing else.
func TestHandOverWithoutStandby(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.client(), r.client()
		first := r.lock(a.Mutex("x").Lock)
		waiters := r.beginMany(2, a.Mutex("x").Lock)
		standby := r.queue(b, "x").Waiters()[0]
		r.must(b.Break(t.Context(), "x", standby.Token))
		r.pass(time.Second)
		if first.Err() != nil || waiters[0].done() {
			t.Fatal("the holder or a waiter was affected by the standby")
		}
		r.unlock(first)
		for _, w := range waiters {
			r.pass(time.Second)
			r.holds(w, "it did not go on")
			r.unlock(w.lease)
		}
		r.nothingRemains("x")
	})
}

func TestHandOverWhileTheStandbysJoinHangs(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		l := r.lock(c.Mutex("x").Lock)
		release := link.HoldRequests()
		calls := r.beginMany(20, c.Mutex("x").Lock)
		began := time.Now()
		for _, w := range calls {
			r.unlock(l)
			if synctest.Wait(); !w.holds() || time.Since(began) != 0 {
				t.Fatal("it waits for the standby")
			}
			l = w.lease
		}
		go l.Unlock(t.Context()) //nolint:errcheck // its Leave hangs too
		release()
		r.nothingRemains("x")
	})
}

// The standby's Join hangs, the last waiter is served and unlocks, and then others come. They wait for that
// Join's claim, which must be spoken about when it is there.
func TestHandOverToLateStandby(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		first := r.lock(c.Mutex("x").Lock)
		release := link.HoldReplies()
		next := r.begin(c.Mutex("x").Lock)
		r.unlock(first)
		r.holds(next, "it waits for the standby")
		go next.lease.Unlock(t.Context()) //nolint:errcheck // its Leave hangs too
		r.pass(100 * time.Millisecond)
		late := r.beginMany(2, c.Mutex("x").Lock)
		release()
		for _, w := range late {
			r.pass(time.Second)
			r.holds(w, "it does not go on")
			r.unlock(w.lease)
		}
		r.nothingRemains("x")
	})
}

// The Join of the standby fails while the claim is held. No caller gets the error.
func TestHandOverWhenTheStandbysJoinFails(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		l := r.lock(c.Mutex("x").Lock)
		link.Cut()
		calls := r.beginMany(3, c.Mutex("x").Lock)
		r.pass(ttl / 6)
		link.Heal()
		r.pass(ttl / 6)
		for _, w := range calls {
			if w.done() {
				t.Fatalf("got %v, %v", w.lease, w.err)
			}
		}
		for _, w := range calls {
			r.unlock(l)
			r.pass(time.Millisecond)
			r.holds(w, "it did not go on")
			l = w.lease
		}
		r.unlock(l)
		r.nothingRemains("x")
	})
}

// TestWaiterWithoutAStandbyIsServed: its standby could not be sent. However the lock ends that it waits behind,
// another claim has to be sent, or it waits for ever.
func TestWaiterWithoutAStandbyIsServed(t *testing.T) {
	for what, end := range map[string]func(r *rig, l *holdfast.Lease, d *detour){
		"unlocked": func(r *rig, l *holdfast.Lease, _ *detour) { r.unlock(l) },
		"unlocked in the background": func(r *rig, l *holdfast.Lease, _ *detour) {
			l.Unlock(r.cancelled()) //nolint:errcheck // the keeper does it
		},
		"broken": func(r *rig, _ *holdfast.Lease, _ *detour) { r.breakLock("x") },
		"broken, and the push says so": func(r *rig, _ *holdfast.Lease, d *detour) {
			r.server.Erase("x", d.claim(0).ID)
			d.push(d.claim(0).ID, store.Status{State: store.Gone})
		},
		"expired": func(r *rig, _ *holdfast.Lease, _ *detour) { r.pass(2 * ttl) },
	} {
		scene(t, what, func(t *testing.T, r *rig) {
			d := secondJoinFails()
			d.keep = func(_ context.Context, cs []store.Claim) error {
				if cs[0].ID == d.claim(0).ID {
					return errDown
				}
				return nil
			}
			c := r.around(d, holdfast.WithHandOver(1, time.Hour)) // it is never handed over
			l := r.lock(c.Mutex("x").Lock)
			waiter := r.begin(c.Mutex("x").Lock)
			if d.joins.Load() != 2 || c.Waiting() != 0 {
				t.Fatalf("%d joins, and %d wait", d.joins.Load(), c.Waiting())
			}
			end(r, l, d)
			r.pass(ttl) // the store may still have the first
			r.holds(waiter, "it still waits, or failed")
		})
	}
}

// TestEveryonePushSendsTheStandbyThatFailed: the store is back, and the process has no claim in the queue.
func TestEveryonePushSendsTheStandbyThatFailed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		d := secondJoinFails()
		c := r.around(d)
		r.lock(c.Mutex("x").Lock)
		r.begin(c.Mutex("x").Lock)
		if c.Waiting() != 0 {
			t.Fatal("the standby did not fail")
		}
		d.push(store.Everyone, store.Status{})
		if synctest.Wait(); c.Waiting() != 1 || d.joins.Load() != 3 {
			t.Fatalf("%d wait after %d joins", c.Waiting(), d.joins.Load())
		}
	})
}

// TestStandbyForRequestsDuringJoin: the process must have a claim in the queue for them, as for those that come
// later.
func TestStandbyForRequestsDuringJoin(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		d, land := slowJoin(1)
		c := r.around(d)
		first := r.begin(c.Mutex("x").Lock)
		r.begin(c.Mutex("x").Lock)
		close(land)
		if synctest.Wait(); !first.holds() || c.Waiting() != 1 {
			t.Fatalf("%d wait in the queue", c.Waiting())
		}
	})
}

// TestSenderOfTheJoinIsServedFirst: others queued while it was under way.
func TestSenderOfTheJoinIsServedFirst(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		holder := r.lock(r.client().Mutex("x").Lock)
		d, land := slowJoin(1)
		c := r.around(d)
		first, second := r.begin(c.Mutex("x").Lock), r.begin(c.Mutex("x").Lock)
		close(land)
		synctest.Wait()
		r.unlock(holder)
		if synctest.Wait(); !first.holds() || second.done() {
			t.Fatal("who came later was served first")
		}
	})
}

// TestStandbyIsGrantedWhatTheHolderStillBelievesIn: the store has lost the first claim and says so only by granting the
// next. Two leases of one process must not live beside each other.
func TestStandbyIsGrantedWhatTheHolderStillBelievesIn(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, d := r.counted()
		l := r.lock(c.Mutex("x").Lock)
		waiter := r.begin(c.Mutex("x").Lock)
		r.server.Erase("x", d.claim(0).ID)
		if synctest.Wait(); !waiter.holds() || !errors.Is(l.Err(), holdfast.ErrLost) {
			t.Fatalf("the waiter: %v; the holder: %v", waiter.err, l.Err())
		}
	})
}

// TestStandbyIsWithdrawnWhenItsJoinReturnsTooLate: no request waits any more. If the standby was even granted, no
// request would ever give it back.
func TestStandbyIsWithdrawnWhenItsJoinReturnsTooLate(t *testing.T) {
	for _, granted := range []bool{false, true} {
		scene(t, fmt.Sprint(granted), func(t *testing.T, r *rig) {
			d, land := slowJoin(2)
			c := r.around(d)
			l := r.lock(c.Mutex("x").Lock)
			waiter := r.begin(c.Mutex("x").Lock)
			waiter.end()
			synctest.Wait()
			places := 1
			if granted {
				r.unlock(l)
				places = 0
			}
			close(land)
			if synctest.Wait(); c.Waiting() != 0 || len(r.queue(c, "x").Entries) != places {
				t.Fatalf("%d wait, and the queue has %d entries", c.Waiting(), len(r.queue(c, "x").Entries))
			}
		})
	}
}

// TestStandbyThatFailedIsSentAgain: a store that fails once must not cost the process its position for as long as the
// holder holds.
func TestStandbyThatFailedIsSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.around(secondJoinFails())
		l := r.lock(c.Mutex("x").Lock)
		early := r.begin(c.Mutex("x").Lock)
		r.pass(time.Minute)
		if c.Waiting() != 1 {
			t.Errorf("after a minute %d are in the queue", c.Waiting())
		}
		late := r.begin(r.client().Mutex("x").Lock) // another process
		r.pass(time.Minute)
		r.unlock(l)
		if synctest.Wait(); !early.holds() || late.done() {
			t.Error("who came a minute later was served first")
		}
	})
}

// TestUnusedStandbyIsWithdrawn: the lock was handed over to the only waiter. When it gives
// the lock back, that is free at once.
func TestUnusedStandbyIsWithdrawn(t *testing.T) {
	for _, after := range []time.Duration{0, holdfast.DefaultTurnsFor, 2 * ttl} {
		scene(t, after.String(), func(t *testing.T, r *rig) {
			c, other := r.client(), r.client()
			first := r.lock(c.Mutex("x").Lock)
			next := r.begin(c.Mutex("x").Lock)
			r.unlock(first)
			r.holds(next, "it was not handed over")
			if c.Waiting() != 1 {
				t.Fatalf("there is no standby: %d wait", c.Waiting())
			}
			r.pass(after)
			if queue := r.queue(c, "x"); after > 0 && (c.Waiting() != 0 || len(queue.Entries) != 1) {
				t.Fatalf("%d wait, and the queue has %d entries", c.Waiting(), len(queue.Entries))
			}
			r.holds(next, "it was lost")
			r.unlock(next.lease)
			synctest.Wait()
			r.lock(other.Mutex("x").TryLock)
		})
	}
}

// TestStandbyWhoseJoinIsLateIsKept: no request needed it while its Join was under way, and then one did.
func TestStandbyWhoseJoinIsLateIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		d, land := slowJoin(2)
		c := r.around(d)
		first := r.lock(c.Mutex("x").Lock)
		next := r.begin(c.Mutex("x").Lock)
		r.unlock(first)
		r.pass(time.Second) // longer than an unused standby is kept
		r.holds(next, "it was not handed over")
		last := r.begin(c.Mutex("x").Lock)
		close(land)
		r.pass(3 * ttl)
		if queue := r.queue(r.client(), "x"); len(queue.Entries) != 2 {
			t.Fatalf("the queue has %d entries", len(queue.Entries))
		}
		r.unlock(next.lease)
		r.pass(time.Second)
		r.holds(last, "the last did not get it")
	})
}

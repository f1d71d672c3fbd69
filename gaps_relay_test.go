package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// errDown is what a store says that is ill.
var errDown = &store.Fault{Store: "it", Err: errors.New("down")}

// secondJoinFails is a store that is ill for one moment.
func secondJoinFails(joins *atomic.Int32) *detour {
	d := &detour{}
	d.join = func(ctx context.Context, c store.Claim) (store.Standing, error) {
		if joins.Add(1) == 2 {
			return store.Standing{}, errDown
		}
		return d.Store.Join(ctx, c)
	}
	return d
}

// TestWaiterWithoutAStandbyIsServed: its standby could not be sent. However the lock ends that it waits behind,
// somebody has to send another claim, or it waits for ever.
func TestWaiterWithoutAStandbyIsServed(t *testing.T) {
	for what, end := range map[string]func(r *rig, l *holdfast.Lease, d *detour, id store.ID){
		"given back": func(r *rig, l *holdfast.Lease, _ *detour, _ store.ID) { r.unlock(l) },
		"given back in the background": func(r *rig, l *holdfast.Lease, _ *detour, _ store.ID) {
			l.Unlock(r.cancelled()) //nolint:errcheck // the keeper does it
		},
		"broken": func(r *rig, l *holdfast.Lease, _ *detour, _ store.ID) {
			if err := r.client().Break(r.Context(), "x", l.Token()); err != nil {
				r.Error(err)
			}
		},
		"broken, and the push says so": func(r *rig, _ *holdfast.Lease, d *detour, id store.ID) {
			r.server.Erase("x", id)
			d.push(id, store.Standing{State: store.Gone})
		},
		"run out": func(r *rig, _ *holdfast.Lease, _ *detour, _ store.ID) { r.pass(2 * ttl) },
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				var joins, keeps atomic.Int32
				var first store.Claim
				d := secondJoinFails(&joins)
				join := d.join
				d.join = func(ctx context.Context, c store.Claim) (store.Standing, error) {
					if joins.Load() == 0 {
						first = c
					}
					return join(ctx, c)
				}
				d.keep = func(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
					if keeps.Add(1); cs[0].ID == first.ID {
						return nil, errDown
					}
					return d.Store.Keep(ctx, cs)
				}
				c := r.around(d, holdfast.HandOver(1, time.Hour)) // it is never handed over
				l := r.lock(c.Mutex("x").Lock)
				waiter := r.begin(c.Mutex("x").Lock)
				if joins.Load() != 2 || c.Waiting() != 0 {
					t.Fatalf("%d joins, and %d wait", joins.Load(), c.Waiting())
				}
				end(r, l, d, first.ID)
				r.pass(ttl) // the store may still have the first
				if !waiter.holds() {
					t.Fatalf("it still waits, or failed: %v", waiter.err)
				}
			})
		})
	}
}

// TestEveryoneSendsTheStandbyThatFailed: the store is back, and the process has no place in the line.
func TestEveryoneSendsTheStandbyThatFailed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var joins atomic.Int32
		d := secondJoinFails(&joins)
		c := r.around(d)
		r.lock(c.Mutex("x").Lock)
		r.begin(c.Mutex("x").Lock)
		if c.Waiting() != 0 {
			t.Fatal("the standby did not fail")
		}
		d.push(store.Everyone, store.Standing{})
		if synctest.Wait(); c.Waiting() != 1 || joins.Load() != 3 {
			t.Fatalf("%d wait after %d joins", c.Waiting(), joins.Load())
		}
	})
}

// slowJoin is a store whose n-th Join takes until land is closed.
func slowJoin(n int32) (d *detour, land chan struct{}) {
	land = make(chan struct{})
	var joins atomic.Int32
	d = &detour{}
	d.join = func(ctx context.Context, c store.Claim) (store.Standing, error) {
		if joins.Add(1) == n {
			<-land
		}
		return d.Store.Join(ctx, c)
	}
	return d, land
}

// TestStandbyForThoseWhoCameDuringJoin: the process must have a place in the line for them, as for those who come
// later.
func TestStandbyForThoseWhoCameDuringJoin(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		d, land := slowJoin(1)
		c := r.around(d)
		first := r.begin(c.Mutex("x").Lock)
		r.begin(c.Mutex("x").Lock)
		close(land)
		if synctest.Wait(); !first.holds() || c.Waiting() != 1 {
			t.Fatalf("%d wait in the line", c.Waiting())
		}
	})
}

// TestWhoSentTheJoinIsServedFirst: others queued while it was under way.
func TestWhoSentTheJoinIsServedFirst(t *testing.T) {
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

// TestWaiterThatCouldNotBeKeptGetsTheStoresError, although the line can be read.
func TestWaiterThatCouldNotBeKeptGetsTheStoresError(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, n := r.counted()
		n.lie(func(_ store.Claim, s store.Standing) store.Standing { s.Err = errDown; return s })
		r.lock(r.client().Mutex("x").Lock)
		_, err := c.Mutex("x", holdfast.Wait(ttl/2)).Lock(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errDown) || errors.Is(err, holdfast.ErrLocked) {
			t.Fatalf("got %v", err)
		}
	})
}

// TestCloseWaitsForAnUnlockThatIsUnderWay, and does not begin it again.
func TestCloseWaitsForAnUnlockThatIsUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var leaves atomic.Int32
		answer := make(chan struct{})
		d := &detour{leave: func(context.Context, store.Claim) error {
			leaves.Add(1)
			<-answer
			return errDown
		}}
		c := r.around(d)
		l := r.lock(c.Mutex("x").Lock)
		unlocked, closed := make(chan error, 1), make(chan struct{})
		go func() { unlocked <- l.Unlock(t.Context()) }()
		synctest.Wait()
		go func() { c.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("it did not wait")
		default:
		}
		close(answer)
		<-closed
		if err := <-unlocked; !errors.Is(err, errDown) {
			t.Errorf("Unlock: %v", err)
		}
		if synctest.Wait(); leaves.Load() != 1 {
			t.Errorf("%d leaves", leaves.Load())
		}
	})
}

// TestStoreThatGrantsLessThanTheTTL is asked more often, but not without a pause.
func TestStoreThatGrantsLessThanTheTTL(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		keeps := 0 // one call after the other
		d := &detour{}
		less := func(s *store.Standing) { s.Until = time.Now().Add(ttl / 10) }
		d.join = func(ctx context.Context, c store.Claim) (store.Standing, error) {
			s, err := d.Store.Join(ctx, c)
			less(&s)
			return s, err
		}
		d.keep = func(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
			if keeps++; keeps > 1000 {
				return nil, hang(ctx) // no time would pass
			}
			standings, err := d.Store.Keep(ctx, cs)
			less(&standings[0])
			return standings, err
		}
		l := r.lock(r.around(d).Mutex("x").Lock)
		r.pass(ttl)
		if l.Err() != nil || keeps > 100 {
			t.Fatalf("%v after %d keeps", l.Err(), keeps)
		}
	})
}

// TestStandbyIsGrantedWhatTheHolderStillBelievesIn: the store has lost the first claim and says so only by granting the
// next. Two leases of one process must not live beside each other.
func TestStandbyIsGrantedWhatTheHolderStillBelievesIn(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var first store.ID
		d := &detour{}
		d.join = func(ctx context.Context, c store.Claim) (store.Standing, error) {
			if first == (store.ID{}) {
				first = c.ID
			}
			return d.Store.Join(ctx, c)
		}
		c := r.around(d)
		l := r.lock(c.Mutex("x").Lock)
		waiter := r.begin(c.Mutex("x").Lock)
		r.server.Erase("x", first)
		if synctest.Wait(); !waiter.holds() || !errors.Is(l.Err(), holdfast.ErrLost) {
			t.Fatalf("the waiter: %v; the holder: %v", waiter.err, l.Err())
		}
	})
}

// TestStandbyIsWithdrawnWhenItsJoinIsAnsweredTooLate: nobody waits any more. If it was even granted, nobody would ever
// give it back.
func TestStandbyIsWithdrawnWhenItsJoinIsAnsweredTooLate(t *testing.T) {
	for _, granted := range []bool{false, true} {
		t.Run(fmt.Sprint(granted), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
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
				if synctest.Wait(); c.Waiting() != 0 || len(r.line(c, "x").Places) != places {
					t.Fatalf("%d wait, and the line has %d places", c.Waiting(), len(r.line(c, "x").Places))
				}
			})
		})
	}
}

// TestPlaceLostAfterAGrantIsTakenAgainAtOnce: only a store that loses it again and again is given a pause.
func TestPlaceLostAfterAGrantIsTakenAgainAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, other := r.client(), r.client()
		for range 5 {
			holder := r.lock(other.Mutex("x").Lock)
			waiter := r.begin(c.Mutex("x").Lock)
			if err := other.Break(t.Context(), "x", r.line(other, "x").Waiters()[0].Token); err != nil {
				t.Fatal(err)
			}
			if synctest.Wait(); c.Waiting() != 1 {
				t.Fatal("it does not stand in the line again")
			}
			r.unlock(holder)
			if synctest.Wait(); !waiter.holds() {
				t.Fatalf("it was not granted: %v", waiter.err)
			}
			r.unlock(waiter.lease)
		}
	})
}

// TestStandbyThatFailedIsSentAgain: a store that fails once must not cost the process its place for as long as the
// holder holds.
func TestStandbyThatFailedIsSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var joins atomic.Int32
		c := r.around(secondJoinFails(&joins))
		l := r.lock(c.Mutex("x").Lock)
		early := r.begin(c.Mutex("x").Lock)
		r.pass(time.Minute)
		if c.Waiting() != 1 {
			t.Errorf("after a minute %d stand in the line", c.Waiting())
		}
		late := r.begin(r.client().Mutex("x").Lock) // another process
		r.pass(time.Minute)
		r.unlock(l)
		if synctest.Wait(); !early.holds() || late.done() {
			t.Error("who came a minute later was served first")
		}
	})
}

package holdfast_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// TestPushedGrantNeedsItsTicket: a grant is pushed for a claim that waits. It is believed only with the claim's own
// ticket; with another one Keep is called, which reports that the claim still waits.
func TestPushedGrantNeedsItsTicket(t *testing.T) {
	for what, test := range map[string]struct {
		ticket   func(own uint64) uint64
		believed bool
	}{
		"its own":        {func(own uint64) uint64 { return own }, true},
		"none":           {func(uint64) uint64 { return 0 }, false},
		"the next":       {func(own uint64) uint64 { return own + 1 }, false},
		"the one before": {func(own uint64) uint64 { return own - 1 }, false},
		"the greatest":   {func(uint64) uint64 { return store.MaxTicket }, false},
	} {
		scene(t, what, func(t *testing.T, r *rig) {
			first := r.lock(r.client().Mutex("x").Lock)
			c, d := r.counted()
			waiter := r.begin(c.Mutex("x").Lock)
			own := d.claim(0)
			d.push(own.ID, store.Status{State: store.Held, Ticket: test.ticket(own.Ticket)})
			if synctest.Wait(); waiter.done() != test.believed {
				t.Fatalf("believed: %v, while another holds: %v", waiter.done(), first.Err())
			}
			if asked := d.keeps.Load() == 1; asked == test.believed {
				t.Errorf("%d keeps", d.keeps.Load())
			}
		})
	}
}

// TestPushedLossIsRechecked: a push reports that a claim is gone. Keep is called at once, and believed.
func TestPushedLossIsRechecked(t *testing.T) {
	for what, gone := range map[string]bool{"true": true, "forged": false} {
		scene(t, what, func(t *testing.T, r *rig) {
			c, d := r.counted()
			l := r.lock(c.Mutex("x").Lock)
			own := d.claim(0)
			if gone {
				r.server.Erase("x", own.ID)
			}
			d.pushed(own, store.Gone)
			if synctest.Wait(); errors.Is(l.Err(), holdfast.ErrLost) != gone || d.keeps.Load() != 1 {
				t.Fatalf("%v after %d keeps", l.Err(), d.keeps.Load())
			}
		})
	}
}

// TestPushedLossDuringALateResponse: a forged loss is rechecked, and the response takes longer than further pushes are
// ignored for. A true loss that is pushed in the meantime is rechecked after the response.
func TestPushedLossDuringALateResponse(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		const late = ttl / 8
		wait := sync.OnceFunc(func() { time.Sleep(late) })
		d := &detour{answer: func(store.Claim, *store.Status) { wait() }}
		l := r.lock(r.around(d).Mutex("x").Lock)
		own := d.claim(0)
		d.pushed(own, store.Gone)
		r.pass(late / 4)
		r.server.Erase("x", own.ID)
		d.pushed(own, store.Gone)
		if r.pass(late); !errors.Is(l.Err(), holdfast.ErrLost) {
			t.Fatalf("not noticed: %v", l.Err())
		}
	})
}

// TestFloodOfPushesIsBounded: another client forges pushes, a thousand times per ttl. That costs a
// bounded number of calls, and what is true is still noticed.
func TestFloodOfPushesIsBounded(t *testing.T) {
	for what, forged := range map[string]store.State{"losses": store.Gone, "grants": store.Held} {
		scene(t, what, func(t *testing.T, r *rig) {
			const claims = 10
			c, d := r.counted()
			leases := make([]*holdfast.Lease, claims)
			for i := range leases {
				name := fmt.Sprint(i)
				if forged == store.Held {
					r.lock(r.client().Mutex(name).Lock)
					r.begin(c.Mutex(name).Lock)
				} else {
					leases[i] = r.lock(c.Mutex(name).Lock)
				}
			}
			flood := func(state store.State) {
				for i := range claims {
					c := d.claim(i)
					d.push(c.ID, store.Status{State: state, Ticket: c.Ticket + 1})
				}
			}
			for range 1000 {
				flood(forged)
				r.pass(ttl / 1000)
			}
			if most := int64(claims * 64); d.kept.Load() > most {
				t.Errorf("%d claims were kept in a ttl, and %d are the most", d.kept.Load(), most)
			}
			if forged == store.Held {
				return
			}
			r.server.Erase("0", d.claim(0).ID)
			for range 100 {
				flood(forged)
				r.pass(ttl / 1000)
			}
			if !errors.Is(leases[0].Err(), holdfast.ErrLost) || leases[1].Err() != nil {
				t.Errorf("the one that is gone: %v; another: %v", leases[0].Err(), leases[1].Err())
			}
		})
	}
}

// TestIDsTellNothingOfEachOther checks that the IDs of some claims do not reveal the next.
func TestIDsTellNothingOfEachOther(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, d := r.counted()
		const claims = 500
		for range claims {
			r.unlock(r.lock(c.Mutex("x").Lock))
		}
		seen := map[store.ID]bool{}
		for at := range len(store.ID{}) {
			values := map[byte]bool{}
			for _, c := range d.claims {
				values[c.ID[at]] = true
				seen[c.ID] = true
			}
			if len(values) < 128 { // of 500 random ones, some 220
				t.Errorf("byte %d has only %d values in %d IDs", at, len(values), claims)
			}
		}
		if len(seen) != claims {
			t.Errorf("%d IDs for %d claims", len(seen), claims)
		}
	})
}

// TestPushedGrantIsConfirmedSoon: a push may be wrong, and the lease believes it until a Keep returns.
func TestPushedGrantIsConfirmedSoon(t *testing.T) {
	const soon = ttl / 100
	scene(t, "true", func(t *testing.T, r *rig) {
		c, n := r.counted()
		first := r.lock(r.client().Mutex("x").Lock)
		waiter := r.begin(c.Mutex("x").Lock)
		r.unlock(first)
		r.pass(soon)
		if !waiter.holds() || n.keeps.Load() != 1 {
			t.Fatalf("%d keeps", n.keeps.Load())
		}
	})
	scene(t, "false", func(t *testing.T, r *rig) {
		c, d := r.counted()
		first := r.lock(r.client().Mutex("x").Lock)
		waiter := r.begin(c.Mutex("x").Lock)
		d.pushed(d.claim(0), store.Held)
		r.pass(soon)
		if !waiter.done() || waiter.err == nil && !errors.Is(waiter.lease.Err(), holdfast.ErrLost) ||
			first.Err() != nil {
			t.Fatal("it goes on believing the push")
		}
	})
}

// TestOutdatedStatusChangesNothing: a Keep that was sent before the pushed grant returns Waiting. It neither ends
// the lease nor moves its end.
func TestOutdatedStatusChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		first := r.lock(r.client().Mutex("x").Lock)
		waiter := r.begin(c.Mutex("x").Lock)
		release := link.HoldReplies()
		r.pass(ttl/3 + time.Second) // the waiter's Keep returns Waiting, and its response is on its way
		r.unlock(first)             // the push overtakes it
		r.holds(waiter, "the push did not grant")
		before := waiter.lease.Until()
		release()
		if synctest.Wait(); !waiter.holds() || !waiter.lease.Until().Equal(before) {
			t.Fatalf("until %v, and then %v", before, waiter.lease.Until())
		}
		r.pass(ttl / 100) // it is still to be confirmed
		if !waiter.holds() || !waiter.lease.Until().After(before) {
			t.Fatalf("it was not confirmed: until %v", waiter.lease.Until())
		}
		r.pass(ttl)
		r.holds(waiter, "old news ended the lease")
	})
}

// TestInvalidPushRaisesNoFloor: a push can come from any client. Its ticket must not make the receiver unusable.
func TestInvalidPushRaisesNoFloor(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, d := r.counted()
		r.lock(c.Mutex("x").Lock)
		d.push(store.ID{1}, store.Status{State: store.Gone, Ticket: store.MaxTicket - 1})
		r.lock(c.Mutex("y").Lock)
	})
}

// TestEveryoneIsForWaitingAndLeavingClaimsToo: the store is back, and no claim has to wait for its next call.
func TestEveryoneIsForWaitingAndLeavingClaimsToo(t *testing.T) {
	scene(t, "waiting", func(t *testing.T, r *rig) {
		c, link := r.linked()
		first := r.lock(r.client().Mutex("x").Lock)
		waiter := r.begin(c.Mutex("x").Lock)
		link.DropPushes(true)
		r.unlock(first)
		link.DropPushes(false)
		r.waits(waiter, "the push was not dropped")
		r.server.Restart(true)
		r.holds(waiter, "it was not asked for")
	})
	scene(t, "leaving", func(t *testing.T, r *rig) {
		c, link := r.linked()
		l := r.lock(c.Mutex("x").Lock)
		link.Cut()
		l.Unlock(t.Context()) //nolint:errcheck // it cannot be told
		synctest.Wait()
		link.Heal()
		r.server.Restart(true)
		synctest.Wait()
		r.lock(r.client().Mutex("x").TryLock)
	})
}

func TestLostPushIsMadeUpForByTheNextKeep(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		first := r.lock(r.client().Mutex("x").Lock)
		waiter := r.begin(c.Mutex("x").Lock)
		link.DropPushes(true)
		r.unlock(first)
		r.waits(waiter, "the push was not dropped")
		r.pass(ttl / 3)
		r.holds(waiter, "Keep did not tell")
	})
}

func TestPushBeforeJoinReturnsGrantsNothingAndIsRechecked(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		first := r.lock(r.client().Mutex("x").Lock)
		release := link.HoldReplies()
		waiter := r.begin(c.Mutex("x").Lock)
		r.unlock(first) // the push arrives before Join's response
		r.waits(waiter, "an early push granted something")
		release() // the response has Waiting
		r.pass(time.Millisecond)
		r.holds(waiter, "it was not rechecked")
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
		n.lie(func(_ store.Claim, s *store.Status) { s.State = store.Waiting })
		r.pass(ttl / 2)
		if !errors.Is(l.Err(), holdfast.ErrLost) {
			t.Fatalf("it says %v", l.Err())
		}
		if n.leaves.Load() == 0 {
			t.Fatal("the claim was left behind")
		}
	})
}

func TestEverythingIsKeptOnceAfterAReconnect(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, n := r.counted()
		for i := range 100 {
			r.lock(c.Mutex(fmt.Sprint(i)).Lock)
		}
		n.push(store.Everyone, store.Status{})
		synctest.Wait()
		r.pass(time.Millisecond)
		if n.kept.Load() != 100 {
			t.Fatalf("%d of 100 were kept", n.kept.Load())
		}
	})
}

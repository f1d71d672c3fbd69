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
)

func TestHandOverCancelledWaiter(t *testing.T) {
	const waiters = 4
	for who, holder := range map[string]func(a, b *holdfast.Client) *holdfast.Client{
		"held here":  func(a, _ *holdfast.Client) *holdfast.Client { return a },
		"held there": func(_, b *holdfast.Client) *holdfast.Client { return b },
	} {
		for name, cancelled := range map[string][]int{
			"first": {0}, "middle": {2}, "last": {3}, "first two": {0, 1}, "all but the last": {0, 1, 2},
			"all": {0, 1, 2, 3}, "all, backwards": {3, 2, 1, 0},
		} {
			scene(t, who+"/"+name, func(t *testing.T, r *rig) {
				a, b := r.client(), r.client()
				first := r.lock(holder(a, b).Mutex("x").Lock)
				calls := r.beginMany(waiters, a.Mutex("x").Lock) // the first sent the Join
				for _, i := range cancelled {
					calls[i].end()
					if synctest.Wait(); !errors.Is(calls[i].err, context.Canceled) {
						t.Fatalf("got %v", calls[i].err)
					}
				}
				want := 2 // the holder, and one for all waiters here
				if len(cancelled) == waiters {
					want = 1
				}
				if queue := r.queue(b, "x"); len(queue.Entries) != want {
					t.Fatalf("%d in the queue, want %d", len(queue.Entries), want)
				}
				r.unlock(first)
				for i, c := range calls {
					if slices.Contains(cancelled, i) {
						continue
					}
					if synctest.Wait(); !c.holds() {
						t.Fatalf("waiter %d does not hold it", i)
					}
					r.unlock(c.lease)
				}
				r.nothingLeft("x")
			})
		}
	}
}

// The request that sent the Join gives up while the Join is on its way. Those queued behind it continue with another
// claim.
func TestHandOverCancelledBeforeJoinReturns(t *testing.T) {
	for name, hold := range map[string]func(linkFaults) func(){
		"the request is late": func(l linkFaults) func() { return l.HoldRequests() },
		"the answer is late":  func(l linkFaults) func() { return l.HoldReplies() },
	} {
		for _, cancelled := range []int{1, 2} {
			scene(t, fmt.Sprint(name, cancelled), func(t *testing.T, r *rig) {
				c, link := r.linked()
				release := hold(link)
				calls := r.beginMany(3, c.Mutex("x").Lock)
				for _, w := range calls[:cancelled] {
					w.end()
					if synctest.Wait(); !errors.Is(w.err, context.Canceled) {
						t.Fatalf("got %v", w.err)
					}
				}
				if name == "the answer is late" && len(r.queue(r.client(), "x").Entries) != 1 {
					t.Error("nothing was sent for those who still wait")
				}
				r.pass(time.Second)
				release()
				for _, w := range calls[cancelled:] {
					r.pass(time.Second)
					r.holds(w, "it did not go on")
					r.unlock(w.lease)
				}
				r.nothingRemains("x")
			})
		}
	}
}

// A waiter whose context ends at the moment of the hand-over gives it to the next.
func TestHandOverAtTheLastMoment(t *testing.T) {
	for range 200 {
		bubble(t, func(t *testing.T, r *rig) {
			c := r.client()
			first := r.lock(c.Mutex("x").Lock)
			calls := r.beginMany(3, c.Mutex("x").Lock)
			go calls[0].end()
			go calls[1].end()
			r.unlock(first)
			synctest.Wait()
			for _, w := range calls[:2] {
				if w.err == nil {
					r.unlock(w.lease)
				}
			}
			r.holds(calls[2], "the last does not have it")
			r.unlock(calls[2].lease)
			r.pass(time.Second)
			r.nothingLeft("x")
		})
	}
}

func TestHandOverAfterALoss(t *testing.T) {
	for name, lose := range map[string]func(r *rig, b *holdfast.Client, link linkFaults, heal func()){
		"restart without data": func(r *rig, _ *holdfast.Client, _ linkFaults, _ func()) { r.server.Restart(false) },
		"broken": func(r *rig, b *holdfast.Client, _ linkFaults, _ func()) {
			r.check(b.Break(r.Context(), "x", r.queue(b, "x").Holders()[0].Token))
		},
		"everyone broken": func(r *rig, b *holdfast.Client, _ linkFaults, _ func()) {
			for _, p := range slices.Backward(r.queue(b, "x").Entries) {
				r.check(b.Break(r.Context(), "x", p.Token))
			}
		},
		"cut off": func(r *rig, _ *holdfast.Client, link linkFaults,
			heal func()) {
			link.Cut()
			r.pass(3 * ttl)
			heal()
		},
	} {
		for _, passed := range []int{0, 1} { // how often the claim was handed over before
			scene(t, fmt.Sprint(name, passed), func(t *testing.T, r *rig) {
				a, link := r.linked()
				b := r.client()
				d := &diary{T: t}
				holder := r.lock(a.Mutex("x").Lock)
				d.enter("a", holder)
				calls := r.beginMany(3, a.Mutex("x").Lock)
				if passed == 1 {
					r.unlock(holder)
					synctest.Wait()
					holder, calls = calls[0].lease, calls[1:]
					d.enter("a", holder)
					if turnOf(holder) != 1 {
						t.Fatal("it was not handed over")
					}
				}
				other := r.begin(b.Mutex("x").Lock)
				lose(r, b, link, link.Heal)
				r.pass(2 * time.Second)
				if err := holder.Unlock(t.Context()); !errors.Is(err, holdfast.ErrLost) {
					t.Errorf("the holder's Unlock: %v", err)
				}
				for calls = append(calls, other); len(calls) > 0; {
					r.pass(2 * time.Second)
					next := slices.IndexFunc(calls, (*call).done)
					if next < 0 {
						t.Fatalf("%d do not go on", len(calls))
					}
					if calls[next].err != nil {
						t.Fatal(calls[next].err)
					}
					d.enter("next", calls[next].lease)
					if calls[next].lease.Token().Ticket() == holder.Token().Ticket() {
						t.Fatal("it was given the claim that was lost")
					}
					r.unlock(calls[next].lease)
					calls = slices.Delete(calls, next, next+1)
				}
				r.nothingRemains("x")
			})
		}
	}
}

// longHandOver lets a claim be handed over at any time, as far as the option goes.
var longHandOver = holdfast.WithHandOver(holdfast.MaxTurns, time.Hour)

func TestHandOverNeverPastUntil(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		m := c.Mutex("x", longHandOver)
		first := r.lock(m.Lock)
		calls := r.beginMany(2, m.Lock)
		link.Cut()
		time.Sleep(time.Until(first.Until()))
		if err := first.Unlock(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Fatalf("got %v", err)
		}
		if synctest.Wait(); calls[0].done() {
			t.Fatalf("handed over past Until: %v, %v", calls[0].lease, calls[0].err)
		}
		link.Heal()
		r.pass(ttl)
		if !calls[0].holds() || calls[0].lease.Token().Ticket() == first.Token().Ticket() {
			t.Fatal("it did not go on with another claim")
		}
	})
}

// What is handed over just before its end is over at that end.
func TestHandOverJustBeforeUntil(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		m := c.Mutex("x", longHandOver)
		first := r.lock(m.Lock)
		calls := r.beginMany(2, m.Lock)
		link.Cut()
		until := first.Until()
		time.Sleep(time.Until(until) - 1)
		r.unlock(first)
		if synctest.Wait(); !calls[0].holds() || turnOf(calls[0].lease) != 1 || !calls[0].lease.Until().Equal(until) {
			t.Fatal("it was not handed over with the time that was left")
		}
		time.Sleep(time.Nanosecond)
		if err := calls[0].lease.Err(); !errors.Is(err, holdfast.ErrLost) {
			t.Fatalf("it says %v", err)
		}
		r.waits(calls[1], "the next got something")
		link.Heal()
		r.pass(ttl)
		if !calls[1].holds() || turnOf(calls[1].lease) != 0 {
			t.Fatal("it did not go on with another claim")
		}
	})
}

// TestHandOverRenewedAtTheEnd: a lease is found to be over, and the response to a renewal arrives at that moment,
// before the keeper. The claim must not live on without a lease that could release it. Which of them comes first is by
// chance, so it is tried often.
func TestHandOverRenewedAtTheEnd(t *testing.T) {
	for range 50 {
		bubble(t, func(t *testing.T, r *rig) {
			c, link := r.linked()
			l := r.lock(c.Mutex("x").Lock)
			release := link.HoldReplies()
			time.Sleep(time.Until(l.Until()))
			lost := l.Err()
			release()
			if !errors.Is(lost, holdfast.ErrLost) {
				t.Fatalf("at its end it says %v", lost)
			}
			r.nothingRemains("x")
		})
		if t.Failed() {
			return
		}
	}
}

// A lease with a fixed end is never handed over, neither before that end nor at it.
func TestHandOverNotWithFixedTTL(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		m := c.Mutex("x", longHandOver, holdfast.WithFixedTTL(time.Second))
		calls := r.beginMany(5, m.Lock)
		if queue := r.queue(c, "x"); len(queue.Entries) != 5 {
			t.Fatalf("%d in the queue, want 5", len(queue.Entries))
		}
		for i, w := range calls {
			if !w.holds() || turnOf(w.lease) != 0 || time.Until(w.lease.Until()) != time.Second {
				t.Fatalf("waiter %d: %v, %v", i, w.lease, w.err)
			}
			if i%2 == 0 {
				r.unlock(w.lease)
				synctest.Wait()
				continue
			}
			time.Sleep(time.Second)
			if err := w.lease.Unlock(t.Context()); !errors.Is(err, holdfast.ErrLost) {
				t.Fatalf("got %v", err)
			}
			synctest.Wait()
		}
		r.nothingRemains("x")
	})
}

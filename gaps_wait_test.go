package holdfast_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// TestWaiterThatIsCutOffBeforeItsFirstKeep gets the store's error: it cannot know whether anybody is in the way.
func TestWaiterThatIsCutOffBeforeItsFirstKeep(t *testing.T) {
	for what, fail := range map[string]func(linkFaults){
		"cut":           func(l linkFaults) { l.Cut() },
		"requests hang": func(l linkFaults) { l.HoldRequests() },
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				c, link := r.linked()
				r.lock(r.client().Mutex("x").Lock)
				waiter := r.begin(c.Mutex("x", holdfast.Wait(ttl/6)).Lock)
				fail(link)
				r.pass(ttl/6 + time.Second)
				if !waiter.done() || !errors.Is(waiter.err, context.DeadlineExceeded) || errors.Is(waiter.err, holdfast.ErrLocked) {
					t.Fatalf("got %v", waiter.err)
				}
				var fault *store.Fault
				if what == "cut" && !errors.As(waiter.err, &fault) {
					t.Fatalf("it does not name the fault: %v", waiter.err)
				}
			})
		})
	}
}

func TestCauseOfAContextThatEndsDuringJoin(t *testing.T) {
	why := errors.New("the user went away")
	for what, test := range map[string]struct {
		end  func(context.Context) (context.Context, context.CancelFunc)
		want error
	}{
		"cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { cancel(why) })
			return ctx, func() { cancel(nil) }
		}, context.Canceled},
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, time.Second, why)
		}, context.DeadlineExceeded},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				c, link := r.linked()
				link.HoldRequests()
				ctx, cancel := test.end(t.Context())
				defer cancel()
				if _, err := c.Mutex("x").Lock(ctx); !errors.Is(err, test.want) || !errors.Is(err, why) {
					t.Fatalf("got %v", err)
				}
			})
		})
	}
}

// TestFinalErrorReachesThoseWhoWait: the store will say the same for ever.
func TestFinalErrorReachesThoseWhoWait(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		r.lock(r.client().Mutex("x").Lock)
		waiters := []*call{
			r.begin(c.Mutex("x").Lock), r.begin(c.Mutex("x").Lock), r.begin(c.RWMutex("x").RLock),
		}
		r.server.PlantNewer("x")
		r.pass(ttl / 2)
		for i, w := range waiters {
			if !w.done() || !errors.Is(w.err, holdfast.ErrFormat) {
				t.Errorf("waiter %d: %v", i, w.err)
			}
		}
		if c.Waiting() != 0 {
			t.Errorf("%d claims still wait", c.Waiting())
		}
	})
}

// TestAskAgain: a store that does not push says when it is worth asking.
func TestAskAgain(t *testing.T) {
	for what, test := range map[string]struct {
		in          time.Duration // when to ask, as the store says
		least, most int64         // how often it is asked in 9 s
	}{
		"soon":                                {2 * time.Second, 4, 8},
		"in the past: as soon as is bearable": {-time.Hour, 1000, 9001},
		"later than it would be asked anyway": {time.Hour, 0, 0},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				var asked atomic.Int64
				d := &detour{deaf: true}
				say := func(s *store.Standing) { s.AskAgain = time.Now().Add(test.in) }
				d.join = func(ctx context.Context, c store.Claim) (store.Standing, error) {
					s, err := d.Store.Join(ctx, c)
					say(&s)
					return s, err
				}
				d.keep = func(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
					asked.Add(1)
					standings, err := d.Store.Keep(ctx, cs)
					for i := range standings {
						say(&standings[i])
					}
					return standings, err
				}
				c := r.around(d)
				first := r.lock(r.client().Mutex("x").Lock)
				waiter := r.begin(c.Mutex("x").Lock)
				r.pass(9 * time.Second)
				if n := asked.Load(); n < test.least || n > test.most {
					t.Fatalf("it was asked %d times", n)
				}
				r.unlock(first)
				r.pass(min(max(test.in, time.Millisecond), ttl/3))
				if !waiter.holds() {
					t.Fatal("it was not asked in time")
				}
				asked.Store(0)
				if r.pass(9 * time.Second); asked.Load() > 1 {
					t.Fatalf("what is held was asked for %d times", asked.Load())
				}
			})
		})
	}
}

// TestPushedGrantIsConfirmedSoon: a push may be wrong, and the lease believes it for as long as nobody asks.
func TestPushedGrantIsConfirmedSoon(t *testing.T) {
	const soon = ttl / 100
	t.Run("true", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			c, n := r.counted()
			first := r.lock(r.client().Mutex("x").Lock)
			waiter := r.begin(c.Mutex("x").Lock)
			r.unlock(first)
			r.pass(soon)
			if !waiter.holds() || n.keeps.Load() != 1 {
				t.Fatalf("%d keeps", n.keeps.Load())
			}
		})
	})
	t.Run("false", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			var joined store.Claim
			d := &detour{}
			d.join = func(ctx context.Context, c store.Claim) (store.Standing, error) {
				standing, err := d.Store.Join(ctx, c)
				joined, joined.Ticket = c, standing.Ticket
				return standing, err
			}
			c := r.around(d)
			first := r.lock(r.client().Mutex("x").Lock)
			waiter := r.begin(c.Mutex("x").Lock)
			d.push(joined.ID, store.Standing{State: store.Held, Ticket: joined.Ticket})
			r.pass(soon)
			if !waiter.done() || waiter.err == nil && !errors.Is(waiter.lease.Err(), holdfast.ErrLost) || first.Err() != nil {
				t.Fatal("it goes on believing the push")
			}
		})
	})
}

// TestOldNewsMovesNothing: an answer that says Waiting, and was asked for before the push that granted it.
func TestOldNewsMovesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		first := r.lock(r.client().Mutex("x").Lock)
		waiter := r.begin(c.Mutex("x").Lock)
		release := link.HoldReplies()
		r.pass(ttl/3 + time.Second)
		r.unlock(first)
		synctest.Wait()
		before := waiter.lease.Until()
		release()
		if synctest.Wait(); !waiter.holds() || !waiter.lease.Until().Equal(before) {
			t.Fatalf("until %v, and then %v", before, waiter.lease.Until())
		}
		r.pass(ttl / 100) // it is still to be confirmed
		if !waiter.holds() || !waiter.lease.Until().After(before) {
			t.Fatalf("it was not confirmed: until %v", waiter.lease.Until())
		}
	})
}

// TestRetriesWaitForTheirTime: what is due soon goes along when the keeper is awake, but not what has just failed. A
// busy client would ask a store that is ill without a pause.
func TestRetriesWaitForTheirTime(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, n := r.counted()
		down := errors.New("down")
		n.lie(func(_ store.Claim, s store.Standing) store.Standing { s.Err = down; return s })
		r.lock(c.Mutex("ill").Lock)
		r.pass(ttl / 3)
		for range 200 {
			r.unlock(r.lock(c.Mutex("brief", holdfast.TTL(100*time.Millisecond)).Lock)) // sets an early alarm
			r.pass(50 * time.Millisecond)
		}
		if got := n.keeps.Load(); got < 10 || got > 25 {
			t.Fatalf("it was asked %d times in ten seconds", got)
		}
	})
}

// TestPlaceLostAgainAndAgainIsNoHotLoop: a store that loses what it has, or an operator's script that breaks all.
func TestPlaceLostAgainAndAgainIsNoHotLoop(t *testing.T) {
	for what, test := range map[string]struct {
		joins int64 // the first so many are answered truly
		begin func(r *rig, c *holdfast.Client) *call
	}{
		"by itself":            {0, func(r *rig, c *holdfast.Client) *call { return r.begin(c.RWMutex("x").RLock) }},
		"first of its process": {0, func(r *rig, c *holdfast.Client) *call { return r.begin(c.Mutex("x").Lock) }},
		"behind others of its process": {1, func(r *rig, c *holdfast.Client) *call {
			r.lock(c.Mutex("x").Lock)
			return r.begin(c.Mutex("x").Lock)
		}},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				var joins atomic.Int64
				d := &detour{}
				d.join = func(ctx context.Context, c store.Claim) (store.Standing, error) {
					if joins.Add(1) > test.joins {
						return store.Standing{State: store.Gone}, nil
					}
					return d.Store.Join(ctx, c)
				}
				waiter := test.begin(r, r.around(d))
				r.pass(time.Minute)
				if n := joins.Load(); n < 100 || n > 1000 {
					t.Errorf("%d joins in a minute", n)
				}
				if waiter.done() {
					t.Fatalf("it gave up: %v", waiter.err)
				}
				waiter.end()
				if synctest.Wait(); !errors.Is(waiter.err, context.Canceled) {
					t.Fatalf("got %v", waiter.err)
				}
			})
		})
	}
}

// TestLockedErrorCountsOnlyThoseAhead, not those who came later.
func TestLockedErrorCountsOnlyThoseAhead(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		holder := r.lock(r.client().RWMutex("x").Lock)
		waiter := r.begin(r.client().RWMutex("x", holdfast.Wait(time.Second)).Lock)
		r.begin(r.client().RWMutex("x").Lock)
		r.begin(r.client().RWMutex("x").RLock)
		r.pass(time.Second)
		var locked *holdfast.LockedError
		if !errors.As(waiter.err, &locked) || locked.Ahead != 1 || locked.Token != holder.Token() {
			t.Fatalf("got %+v, %v", locked, waiter.err)
		}
	})
}

// TestStandbyThatNobodyWantsIsWithdrawn: the one who waited was handed the lock, and nobody else came.
func TestStandbyThatNobodyWantsIsWithdrawn(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		first := r.lock(c.Mutex("x").Lock)
		next := r.begin(c.Mutex("x").Lock)
		r.unlock(first)
		if synctest.Wait(); !next.holds() || c.Waiting() != 1 {
			t.Fatalf("it was not handed over, or there is no standby: %d wait", c.Waiting())
		}
		r.pass(holdfast.DefaultTurnsFor)
		if line := r.line(c, "x"); c.Waiting() != 0 || len(line.Places) != 1 {
			t.Fatalf("%d wait, and the line has %d places", c.Waiting(), len(line.Places))
		}
		if r.pass(2 * ttl); !next.holds() {
			t.Fatalf("it was lost: %v", next.lease.Err())
		}
	})
}

// TestStandbyWhoseJoinIsLateIsKept: nobody wanted it while its Join was under way, and then somebody did.
func TestStandbyWhoseJoinIsLateIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		d, land := slowJoin(2)
		c := r.around(d)
		first := r.lock(c.Mutex("x").Lock)
		next := r.begin(c.Mutex("x").Lock)
		r.unlock(first)
		r.pass(time.Second) // longer than a standby is kept that nobody wants
		if !next.holds() {
			t.Fatal("it was not handed over")
		}
		last := r.begin(c.Mutex("x").Lock)
		close(land)
		r.pass(3 * ttl)
		if line := r.line(r.client(), "x"); len(line.Places) != 2 {
			t.Fatalf("the line has %d places", len(line.Places))
		}
		r.unlock(next.lease)
		if r.pass(time.Second); !last.holds() {
			t.Fatalf("the last did not get it: %v", last.err)
		}
	})
}

// TestMadPushRaisesNoFloor: a push can come from anybody. What it says of a ticket must not make the client unusable.
func TestMadPushRaisesNoFloor(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		d := &detour{}
		c := r.around(d)
		r.lock(c.Mutex("x").Lock)
		d.push(store.ID{1}, store.Standing{State: store.Gone, Ticket: store.MaxTicket - 1})
		r.lock(c.Mutex("y").Lock)
	})
}

package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
)

func TestLeaseIsRenewed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		l := r.lock(r.client().Mutex("x").Lock)
		waiter := r.begin(r.client().Mutex("x").Lock)
		for range 100 {
			r.pass(ttl / 2)
			if l.Err() != nil || time.Until(l.Until()) < ttl/2 {
				t.Fatalf("%v, until %v", l.Err(), l.Until())
			}
		}
		if waiter.done() {
			t.Fatal("two hold it")
		}
		r.unlock(l)
		if synctest.Wait(); !waiter.holds() {
			t.Fatal("the waiter was not kept in the line")
		}
	})
}

// TestLeaseEndsBeforeTheNextIsGranted is the promise itself, for every way in which renewal can fail.
func TestLeaseEndsBeforeTheNextIsGranted(t *testing.T) {
	for name, fail := range map[string]func(*rig, linkFaults){
		"cut":           func(_ *rig, l linkFaults) { l.Cut() },
		"requests hang": func(_ *rig, l linkFaults) { l.HoldRequests() },
		"replies hang":  func(_ *rig, l linkFaults) { l.HoldReplies() },
		"client killed": func(_ *rig, l linkFaults) { l.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				c, link := r.linked()
				l := r.lock(c.Mutex("x").Lock)
				var ended, granted time.Time
				context.AfterFunc(l.Context(), func() { ended = time.Now() })
				go func() {
					if _, err := r.client().Mutex("x").Lock(t.Context()); err != nil {
						t.Error(err)
					}
					granted = time.Now()
					if l.Err() == nil {
						t.Error("two hold it")
					}
				}()
				r.pass(ttl / 2)
				fail(r, link)
				r.pass(3 * ttl)
				if ended.IsZero() || granted.IsZero() || ended.After(granted) {
					t.Fatalf("ended at %v, granted to another at %v", ended, granted)
				}
				if !errors.Is(l.Err(), holdfast.ErrLost) || !errors.Is(l.Unlock(t.Context()), holdfast.ErrLost) {
					t.Fatalf("it says %v", l.Err())
				}
			})
		})
	}
}

// linkFaults are the faults of a link that the tests above choose from.
type linkFaults interface {
	Cut()
	Kill()
	HoldRequests() (release func())
	HoldReplies() (release func())
}

func TestLossIsNoticed(t *testing.T) {
	for name, lose := range map[string]func(*rig, *holdfast.Lease){
		"restart without data": func(r *rig, _ *holdfast.Lease) { r.server.Restart(false) },
		"broken by an operator": func(r *rig, l *holdfast.Lease) {
			if err := r.client().Break(r.Context(), "x", l.Token()); err != nil {
				r.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				l := r.lock(r.client().Mutex("x").Lock)
				lose(r, l)
				synctest.Wait() // the store tells at once: no time passes
				select {
				case <-l.Context().Done():
				default:
					t.Fatal("the context goes on")
				}
				if !errors.Is(l.Err(), holdfast.ErrLost) || !errors.Is(context.Cause(l.Context()), holdfast.ErrLost) {
					t.Fatalf("it says %v", l.Err())
				}
				r.unlock(r.lock(r.client().Mutex("x").TryLock))
			})
		})
	}
}

func TestLeaseContext(t *testing.T) {
	type key struct{}
	bubble(t, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Minute)
		l, err := r.client().Mutex("x").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		lease := l.Context()
		if lease.Value(key{}) != "value" || lease.Err() != nil || context.Cause(lease) != nil {
			t.Fatalf("%v, %v", lease.Value(key{}), lease.Err())
		}
		if _, ok := lease.Deadline(); ok {
			t.Fatal("Lock's deadline went on into the lease")
		}
		derived, stop := context.WithCancel(lease)
		defer stop()
		if token, ok := holdfast.TokenFrom(derived); !ok || token != l.Token() {
			t.Fatalf("a derived context has %v, %v", token, ok)
		}
		if _, ok := holdfast.TokenFrom(t.Context()); ok {
			t.Fatal("a token from nowhere")
		}
		r.unlock(l)
		if derived.Err() == nil || !errors.Is(context.Cause(derived), holdfast.ErrNotHeld) {
			t.Fatalf("a derived context says %v", context.Cause(derived))
		}
		if !errors.Is(lease.Err(), context.Canceled) {
			t.Fatalf("the context says %v", lease.Err())
		}
	})
}

func TestUnlockTwice(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		l := r.lock(r.client().Mutex("x").Lock)
		r.unlock(l)
		next := r.lock(r.client().Mutex("x").Lock)
		if err := l.Unlock(t.Context()); !errors.Is(err, holdfast.ErrNotHeld) || errors.Is(err, holdfast.ErrLost) {
			t.Fatalf("got %v", err)
		}
		if synctest.Wait(); next.Err() != nil {
			t.Fatal("a second Unlock took the lock from the next holder")
		}
	})
}

func TestUnlockIsSentWhateverItsContextSays(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		done, cancel := context.WithCancel(t.Context())
		cancel()
		l := r.lock(c.Mutex("x").Lock)
		if err := l.Unlock(done); !errors.Is(err, context.Canceled) || l.Err() == nil {
			t.Fatalf("got %v; the lease says %v", err, l.Err())
		}
		synctest.Wait()
		l = r.lock(c.Mutex("x").TryLock) // it was sent

		link.Cut()
		if err := l.Unlock(t.Context()); err == nil || errors.Is(err, holdfast.ErrLost) || l.Err() == nil {
			t.Fatalf("got %v; the lease says %v", err, l.Err())
		}
		r.pass(ttl / 10)
		link.Heal()
		r.pass(ttl / 10)
		r.lock(r.client().Mutex("x").TryLock) // it was repeated
	})
}

func TestFixedTTL(t *testing.T) {
	for _, d := range []time.Duration{ttl / 10, 10 * ttl} {
		t.Run(d.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				c := r.client()
				before := r.lock(c.Mutex("x").Lock)
				waiter := r.begin(c.Mutex("x", holdfast.FixedTTL(d)).Lock)
				r.pass(5 * ttl) // waiting does not count
				r.unlock(before)
				r.pass(d - time.Millisecond)
				if !waiter.holds() {
					t.Fatalf("it was over too early: %v", waiter.lease.Err())
				}
				r.pass(time.Millisecond)
				if !errors.Is(waiter.lease.Err(), holdfast.ErrLost) {
					t.Fatalf("it goes on: %v", waiter.lease.Err())
				}
				r.lock(c.Mutex("x").TryLock) // and was given back
			})
		})
	}
}

func TestFixedTTLOfADeadHolderEndsWithTheTTL(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		r.lock(c.Mutex("x", holdfast.FixedTTL(time.Hour)).Lock)
		link.Kill()
		r.pass(ttl)
		r.lock(r.client().Mutex("x").TryLock)
	})
}

func TestGrace(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked(holdfast.Grace(ttl))
		l := r.lock(c.Mutex("x").Lock)
		link.Kill()
		r.pass(ttl)
		if l.Err() == nil {
			t.Fatal("its owner believes in the grace")
		}
		if _, err := r.client().Mutex("x").TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) {
			t.Fatalf("the place was not kept: %v", err)
		}
		r.pass(ttl)
		r.lock(r.client().Mutex("x").TryLock)
	})
}

func TestAnswerThatCameTooLateGrantsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		release := link.HoldReplies()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		slow := r.begin(func(context.Context) (*holdfast.Lease, error) { return c.Mutex("x").TryLock(ctx) })
		r.pass(ttl)
		release()
		if synctest.Wait(); !slow.done() || !errors.Is(slow.err, holdfast.ErrLost) {
			t.Fatalf("got %v, %v", slow.lease, slow.err)
		}
		r.lock(r.client().Mutex("x").TryLock)
	})
}

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
		r.waits(waiter, "two hold it")
		r.unlock(l)
		r.holds(waiter, "the waiter was not kept in the line")
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
		scene(t, name, func(t *testing.T, r *rig) {
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
	}
}

func TestLossIsNoticed(t *testing.T) {
	for name, lose := range map[string]func(*rig, *holdfast.Lease){
		"restart without data": func(r *rig, _ *holdfast.Lease) { r.server.Restart(false) },
		"broken by an operator": func(r *rig, l *holdfast.Lease) {
			r.must(r.client().Break(r.Context(), "x", l.Token()))
		},
	} {
		scene(t, name, func(t *testing.T, r *rig) {
			l := r.lock(r.client().Mutex("x").Lock)
			lose(r, l)
			synctest.Wait() // the store pushes at once: no time passes
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
	}
}

func TestLeaseContext(t *testing.T) {
	type key struct{}
	bubble(t, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Minute)
		l := r.lease(r.client().Mutex("x").Lock(ctx))
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

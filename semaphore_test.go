package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast"
)

// units is an Acquire of n units as a locker.
func units(s *holdfast.Semaphore, n int) locker {
	return func(ctx context.Context) (*holdfast.Lease, error) { return s.Acquire(ctx, n) }
}

func TestSemaphoreCountsUnits(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.client().Semaphore("pool", 5)
		three, two := r.lock(units(s, 3)), r.lock(units(s, 2))
		if _, err := s.TryAcquire(t.Context(), 1); !errors.Is(err, holdfast.ErrLocked) {
			t.Fatalf("a sixth unit: %v", err)
		}
		r.unlock(two)
		if _, err := s.TryAcquire(t.Context(), 3); !errors.Is(err, holdfast.ErrLocked) {
			t.Fatalf("units 4 to 6: %v", err)
		}
		if l := r.lock(units(s, 2)); !l.Token().Shared() {
			t.Fatalf("token %v is not marked as shared", l.Token())
		}
		r.unlock(three)
	})
}

func TestSemaphoreIsNotOvertaken(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.client().Semaphore("pool", 4)
		all := r.lock(units(s, 4))
		wide, narrow, narrower := r.begin(units(s, 3)), r.begin(units(s, 1)), r.begin(units(s, 1))
		r.unlock(all)
		if synctest.Wait(); !wide.holds() || !narrow.holds() || narrower.done() {
			t.Fatal("one release makes exactly the first two fit")
		}
		r.unlock(narrow.lease)
		if synctest.Wait(); !narrower.holds() {
			t.Fatal("the third fits now")
		}
	})
}

func TestMismatch(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		l := r.lock(units(c.Semaphore("x", 5), 1))
		for name, lock := range map[string]locker{
			"other limit": units(r.client().Semaphore("x", 6), 1),
			"other kind":  r.client().Mutex("x").Lock,
			"reader":      r.client().RWMutex("x").RLock,
			"try":         r.client().Mutex("x").TryLock,
		} {
			if _, err := lock(t.Context()); !errors.Is(err, holdfast.ErrMismatch) || errors.Is(err, holdfast.ErrLocked) {
				t.Errorf("%s: got %v", name, err)
			}
		}
		r.unlock(l)
		r.lock(c.Mutex("x").TryLock) // nothing was left behind, and the name is free for another use
	})
}

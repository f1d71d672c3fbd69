package holdfast_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast"
)

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
		r.holds(narrower, "the third fits now")
	})
}

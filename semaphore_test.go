package holdfast_test

import (
	"context"
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

// TestSemaphoreDo checks that Do holds its units while fn runs, releases them whatever fn returns, and reports a loss.
func TestSemaphoreDo(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		s := r.client().Semaphore("pool", 3)
		failure := errors.New("failed")
		err := s.Do(t.Context(), 2, func(ctx context.Context) error {
			if token, ok := holdfast.TokenFrom(ctx); !ok || !token.Shared() {
				t.Errorf("token %v, %v", token, ok)
			}
			r.refused("two of the third", func(ctx context.Context) (*holdfast.Lease, error) {
				return s.TryAcquire(ctx, 2)
			}, holdfast.ErrLocked)
			return failure
		})
		if !errors.Is(err, failure) {
			t.Errorf("it returned %v", err)
		}
		err = s.Do(t.Context(), 3, func(ctx context.Context) error {
			r.breakLock("pool")
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("after a loss it returned %v", err)
		}
		for _, n := range []int{0, 4} {
			err := s.Do(t.Context(), n, func(context.Context) error { t.Error("it ran"); return nil })
			if !errors.Is(err, holdfast.ErrBadUnits) {
				t.Errorf("%d units: %v", n, err)
			}
		}
		if err := s.Do(t.Context(), 1, nil); err == nil {
			t.Error("it accepted a nil function")
		}
		r.nothingRemains("pool")
	})
}

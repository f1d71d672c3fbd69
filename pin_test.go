package holdfast_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast"
)

// A guard that the store keeps goes by the claim. Two holders of one claim would be one to it.
func TestShownClaimIsNotHandedOver(t *testing.T) {
	for _, shown := range []bool{false, true} {
		bubble(t, func(t *testing.T, r *rig) {
			c := r.client()
			first := r.lock(c.Mutex("x").Lock)
			if shown {
				if s, claim, err := first.Pin(); err != nil || s == nil || claim.Ticket != first.Token().Ticket() ||
					claim.Name != "x" {
					t.Fatalf("Pin gave %+v and %v", claim, err)
				}
			}
			next := r.begin(c.Mutex("x").Lock)
			synctest.Wait()
			r.unlock(first)
			synctest.Wait()
			r.holds(next, "the next does not hold")
			if handed := next.lease.Token().Ticket() == first.Token().Ticket(); handed == shown {
				t.Errorf("shown: %v, and handed over: %v", shown, handed)
			}
			r.unlock(next.lease)
			r.nothingRemains("x")
		})
	}
}

func TestShowAfterTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		l := r.lock(c.Mutex("x").Lock)
		r.unlock(l)
		if _, _, err := l.Pin(); !errors.Is(err, holdfast.ErrNotHeld) {
			t.Errorf("Pin of a lease that was unlocked: %v", err)
		}
	})
}

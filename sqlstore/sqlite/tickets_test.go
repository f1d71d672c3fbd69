package sqlite

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// TestFloorThatIsTheNextTicket is passed too: a ticket is greater than its floor, in an empty line and in any other.
func TestFloorThatIsTheNextTicket(t *testing.T) {
	now := time.Now()
	e := open(t, newPath(t), func(e *engine) { e.wall = func() time.Time { return now } })
	last := join(t, e, newClaim("x"), store.Held)
	for name, want := range map[string]store.State{"x": store.Waiting, "y": store.Held} {
		c := newClaim(name)
		c.Floor = last + 1
		last = above(t, c.Floor, join(t, e, c, want))
	}
}

// TestOwnFloorIsNeverTooHigh: a ticket that this file gave is believed, also when the clock was set back by more than
// a floor may be ahead.
func TestOwnFloorIsNeverTooHigh(t *testing.T) {
	path := newPath(t)
	c := newClaim("y")
	c.Floor = join(t, open(t, path), newClaim("x"), store.Held)
	above(t, c.Floor, join(t, open(t, path, clockAt(-2*store.FloorAhead)), c, store.Held))
}

// TestFloorWithinATransaction: a claim after a floor in the same transaction is above it, and later ones too.
func TestFloorWithinATransaction(t *testing.T) {
	e := open(t, newPath(t))
	first, second := newClaim("x"), newClaim("y")
	first.Floor = uint64(time.Now().Add(time.Hour).UnixMicro())
	last, err := write(t.Context(), e, func(tx *transaction) (uint64, error) {
		a, err := tx.join(first)
		if err != nil {
			return 0, err
		}
		b, err := tx.join(second)
		if a.Ticket <= first.Floor || b.Ticket <= a.Ticket {
			t.Errorf("tickets %d and %d with floor %d", a.Ticket, b.Ticket, first.Floor)
		}
		return b.Ticket, err
	})
	check(t, err)
	above(t, last, join(t, e, newClaim("z"), store.Held))
}

// TestEndOfTickets: a ticket above the greatest is an error and not a ticket, whether the file or the clock is so far.
func TestEndOfTickets(t *testing.T) {
	path := newPath(t)
	e := open(t, path)
	operate(t, path, "UPDATE holdfast_meta SET mark = ?", int64(store.MaxTicket))
	future := func(e *engine) { e.wall = func() time.Time { return time.Date(3300, 1, 1, 0, 0, 0, 0, time.UTC) } }
	for what, e := range map[string]*engine{"the file": e, "the clock": open(t, newPath(t), future)} {
		if a, err := e.Join(t.Context(), newClaim("x")); !errors.Is(err, store.ErrFloor) {
			t.Errorf("%s: ticket %d, %v", what, a.Ticket, err)
		}
		if l, err := e.Queue(t.Context(), "x"); err != nil || len(l.Entries) != 0 {
			t.Errorf("%s: %d places, %v", what, len(l.Entries), err)
		}
	}
}

// TestMarkSetByHand: the mark was set by hand to a time that no clock has ever had. No ticket is given from there, in
// an empty line or another, and the error says why.
func TestMarkSetByHand(t *testing.T) {
	path := newPath(t)
	e := open(t, path)
	before := join(t, e, newClaim("held"), store.Held)
	operate(t, path, "UPDATE holdfast_meta SET mark = ?", int64(5e15))
	for _, name := range []string{"held", "free"} {
		a, err := e.Join(t.Context(), newClaim(name))
		if !errors.Is(err, store.ErrFloor) || !strings.Contains(err.Error(), "by hand") {
			t.Errorf("%s: ticket %d, %v", name, a.Ticket, err)
		}
	}
	operate(t, path, "UPDATE holdfast_meta SET mark = (SELECT ifnull(max(ticket), 0) FROM holdfast_claims)")
	above(t, before, join(t, e, newClaim("next"), store.Held))
}

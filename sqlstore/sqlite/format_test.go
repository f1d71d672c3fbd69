package sqlite

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// TestNewerFileWhileOpen: a newer program has changed the file under this one. From then on nothing is touched.
func TestNewerFileWhileOpen(t *testing.T) {
	for what, do := range map[string]func(e *engine, alone, waiter *store.Claim) error{
		"Join": func(e *engine, _, _ *store.Claim) error {
			_, err := e.Join(t.Context(), newClaim("y"))
			return err
		},
		"Keep": func(e *engine, _, waiter *store.Claim) error {
			_, err := e.Keep(t.Context(), []store.Claim{*waiter})
			return err
		},
		"Look": func(e *engine, _, waiter *store.Claim) error {
			_, err := e.Poll(t.Context(), []store.Claim{*waiter})
			return err
		},
		"Leave":       func(e *engine, _, waiter *store.Claim) error { return e.Leave(t.Context(), waiter) },
		"Leave alone": func(e *engine, alone, _ *store.Claim) error { return e.Leave(t.Context(), alone) },
		"Break": func(e *engine, _, waiter *store.Claim) error {
			return e.Break(t.Context(), "x", waiter.Ticket)
		},
		"Detach": func(e *engine, alone, _ *store.Claim) error {
			_, err := e.Detach(t.Context(), alone, store.ID{9}, alone.TTL)
			return err
		},
		"Attach": func(e *engine, alone, _ *store.Claim) error {
			_, err := e.Attach(t.Context(), newClaim("alone"), alone.ID)
			return err
		},
		"Line":  func(e *engine, _, _ *store.Claim) error { _, err := e.Queue(t.Context(), "x"); return err },
		"Names": func(e *engine, _, _ *store.Claim) error { _, err := e.Names(t.Context(), ""); return err },
		"Sweep": func(e *engine, _, _ *store.Claim) error { return e.Sweep(t.Context()) },
	} {
		path := newPath(t)
		e := open(t, path)
		alone, holder, waiter := newClaim("alone"), newClaim("x"), newClaim("x")
		join(t, e, alone, store.Held)
		join(t, e, holder, store.Held)
		join(t, e, waiter, store.Waiting)
		operate(t, path, "UPDATE holdfast_meta SET format = ?", format+1)
		operate(t, path, "UPDATE holdfast_claims SET deadline = 1 WHERE name = 'x' AND state = 'held'")
		if err := do(e, alone, waiter); !errors.Is(err, store.ErrFormat) {
			t.Errorf("%s: %v", what, err)
		}
		wantState(t, path, alone, store.Held)
		wantState(t, path, holder, store.Held)
		wantState(t, path, waiter, store.Waiting)
		wantRows(t, path, 3, "holdfast_claims")
	}
}

// TestLeaveOfNewer: what leaving does to a line that has anything of a newer format, only newer programs know.
func TestLeaveOfNewer(t *testing.T) {
	for what, c := range map[string]struct {
		waits bool // a claim, behind the one that leaves
		newer string
	}{
		"alone":                  {false, "held"},
		"it, and somebody waits": {true, "held"},
		"who waits":              {true, "waiting"},
	} {
		path := newPath(t)
		e := open(t, path)
		holder, waiter := newClaim("x"), newClaim("x")
		join(t, e, holder, store.Held)
		if c.waits {
			join(t, e, waiter, store.Waiting)
		}
		operate(t, path, "UPDATE holdfast_claims SET format = ? WHERE state = ?", format+1, c.newer)
		rows := countRows(t, path, "holdfast_claims")
		for _, ticket := range []uint64{holder.Ticket, 0} { // known, or not
			leaver := *holder
			leaver.Ticket = ticket
			if err := e.Leave(t.Context(), &leaver); !errors.Is(err, store.ErrFormat) {
				t.Errorf("%s: %v", what, err)
			}
		}
		wantState(t, path, holder, store.Held)
		wantRows(t, path, rows, "holdfast_claims")
		wantRows(t, path, 0, "holdfast_tombstones")
	}
}

// TestLookAtNewer: a claim of which only newer programs know where it stands is not gone.
func TestLookAtNewer(t *testing.T) {
	path := newPath(t)
	e := open(t, path)
	join(t, e, newClaim("x"), store.Held)
	waiter, elsewhere := joined(t, e, "x", store.Waiting), joined(t, e, "y", store.Held)
	operate(t, path, "UPDATE holdfast_claims SET format = ? WHERE state = 'waiting'", format+1)
	a, err := e.Poll(t.Context(), []store.Claim{*waiter, *elsewhere})
	if err != nil || !errors.Is(a[0].Err, store.ErrFormat) || a[1].Err != nil || a[1].State != store.Held {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestSweepPastNewer: lines with anything newer stay as they are, however many they are, and others are swept all the
// same.
func TestSweepPastNewer(t *testing.T) {
	path := newPath(t)
	e := open(t, path)
	mixed := joined(t, e, "newer 1", store.Held)
	join(t, e, newClaim("z"), store.Held)
	operate(t, path, `INSERT INTO holdfast_claims (prefix, name, seat, ticket, id, state, kind, units, capacity,
		deadline, ttl, grace, since, turn, inbox, waits, details, format)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		SELECT '', 'newer ' || i, 7, 7, 'a new form of id', 'waiting', 'a new kind', 1, 1, 0, 0, 0, 0, 0, '', '',
			'{}', ? FROM n`,
		mostSwept, format+1)
	operate(t, path, "UPDATE holdfast_claims SET deadline = 1")
	check(t, e.Sweep(t.Context()))
	wantRows(t, path, 0, "holdfast_claims WHERE name = 'z'")
	wantRows(t, path, 1+mostSwept, "holdfast_claims")
	wantState(t, path, mixed, store.Held)
}

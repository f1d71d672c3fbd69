package sqlite

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/store"
)

// wantState asks the table itself, which nothing tidies for the asking.
func wantState(t *testing.T, path string, c *store.Claim, want store.State) {
	t.Helper()
	if countRows(t, path, "holdfast_claims WHERE id = ? AND state = ?", c.ID.String(), want.String()) != 1 {
		t.Errorf("the claim with ticket %d is not %v", c.Ticket, want)
	}
}

// TestBreakGrants: Break grants the next claims that fit before it returns.
func TestBreakGrants(t *testing.T) {
	path := newPath(t)
	e := open(t, path)
	holder, next := joined(t, e, "x", store.Held), joined(t, e, "x", store.Waiting)
	check(t, e.Break(t.Context(), "x", holder.Ticket))
	wantState(t, path, next, store.Held)
}

// TestLookGrants: a read grants the claims that fit if the one ahead was deleted by hand, or has expired.
func TestLookGrants(t *testing.T) {
	for what, statement := range map[string]string{
		"taken out": "DELETE FROM holdfast_claims WHERE state = 'held'",
		"ran out":   "UPDATE holdfast_claims SET deadline = 1 WHERE state = 'held'",
	} {
		path := newPath(t)
		e := open(t, path)
		holder, next := joined(t, e, "x", store.Held), joined(t, e, "x", store.Waiting)
		operate(t, path, statement)
		if a, err := e.Poll(t.Context(), []store.Claim{*next, *holder}); err != nil || a[0].State != store.Held ||
			a[1].State != store.Gone {
			t.Errorf("%s: %+v, %v", what, a, err)
		}
	}
}

// TestLookSeesOneMoment: a claim that is granted while it is looked at moves to another seat. It must not be missed at
// both, and be told that it is gone.
func TestLookSeesOneMoment(t *testing.T) {
	path := newPath(t)
	e, other := open(t, path), open(t, path)
	for round := range 100 {
		holder, next := joined(t, other, "x", store.Held), joined(t, e, "x", store.Waiting)
		left := later(func() error { return other.Leave(t.Context(), holder) })
		for state := store.Waiting; state == store.Waiting; {
			a, err := e.Poll(t.Context(), []store.Claim{*next})
			check(t, err)
			if state = a[0].State; state == store.Gone {
				t.Fatalf("round %d: a claim that was granted is gone", round)
			}
		}
		check(t, <-left)
		check(t, e.Leave(t.Context(), next))
	}
}

// TestOpens: a waiter is told when what is ahead of it can run out. Its own time is not ahead of it.
func TestOpens(t *testing.T) {
	for what, c := range map[string]struct{ holder, waiter time.Duration }{
		"the holder first": {5 * time.Second, time.Minute},
		"the waiter first": {time.Minute, 5 * time.Second},
	} {
		e := open(t, newPath(t))
		holder, waiter := newClaim("x"), newClaim("x")
		holder.TTL, waiter.TTL = c.holder, c.waiter
		join(t, e, holder, store.Held)
		opensIn := func(how string, opens time.Duration, err error) {
			if err != nil || opens > c.holder || opens < c.holder-3*time.Second {
				t.Errorf("%s: it opens in %v after %s (%v), and the holder has %v", what, opens, how, err, c.holder)
			}
		}
		a, err := e.Join(t.Context(), waiter)
		opensIn("Join", a.RecheckIn, err)
		a, err = e.Join(t.Context(), waiter) // its answer was lost
		opensIn("Join again", a.RecheckIn, err)
		waiter.Ticket = a.Ticket
		kept, err := e.Keep(t.Context(), []store.Claim{*waiter})
		check(t, err)
		opensIn("Keep", kept[0].RecheckIn, nil)
	}
}

// TestRepeatedJoinKeeps: a claim that joins again has its whole ttl left, as its client now believes.
func TestRepeatedJoinKeeps(t *testing.T) {
	path := newPath(t)
	e := open(t, path)
	c := joined(t, e, "x", store.Held)
	operate(t, path, "UPDATE holdfast_claims SET deadline = deadline - ?", int64(4*time.Second))
	c.Ticket = 0
	join(t, e, c, store.Held)
	if l, err := e.Queue(t.Context(), "x"); err != nil || len(l.Entries) != 1 || l.Entries[0].Left < 2*time.Second {
		t.Errorf("%+v, %v", l.Entries, err)
	}
}

// TestTombstoneEnds with the ttl of the claim that it is for.
func TestTombstoneEnds(t *testing.T) {
	path := newPath(t)
	e := open(t, path)
	c := newClaim("x")
	check(t, e.Leave(t.Context(), c))
	join(t, e, c, store.Gone)
	operate(t, path, "UPDATE holdfast_tombstones SET deadline = deadline - ?", int64(c.TTL))
	join(t, e, c, store.Held)
}

// TestKeepMovesTheInbox: a claim is told where it was last kept.
func TestKeepMovesTheInbox(t *testing.T) {
	path := newPath(t)
	a, b := open(t, path), open(t, path)
	c := joined(t, a, "x", store.Held)
	keep(t, b, c, store.Held)
	wantRows(t, path, 1, "holdfast_claims WHERE inbox = ?", b.notifier.name())
}

// TestSweepOfAllPrefixes: a former tenant has no client that would sweep.
func TestSweepOfAllPrefixes(t *testing.T) {
	path := newPath(t)
	a, b := open(t, path, WithPrefix("a")), open(t, path, WithPrefix("b"))
	join(t, a, newClaim("x"), store.Held)
	next := joined(t, a, "x", store.Waiting)
	operate(t, path, "UPDATE holdfast_claims SET deadline = 1 WHERE state = 'held'")
	later := newClaim("x")
	answer, err := write(t.Context(), b, func(tx *transaction) (sqlstore.Result, error) {
		if err := tx.sweep(); err != nil {
			return sqlstore.Result{}, err
		}
		return tx.join(later) // which means b's own x again
	})
	if err != nil || answer.State != store.Held {
		t.Errorf("after the sweep: %v, %v", answer.State, err)
	}
	wantState(t, path, next, store.Held)
	wantRows(t, path, 2, "holdfast_claims")
}

package mysql_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// TestKeepGroups: a batch has claims that differ in ttl, grace, turn, owner and units, of which some wait, some are
// gone, and the tickets of some are not known. Each is renewed with what it brings, and each result is its own. The
// order of the batch does not matter, and a batch that is repeated has the same results.
func TestKeepGroups(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, other := h.open(t), h.open(t)
	var batch []store.Claim
	want := map[string]store.State{}
	add := func(c store.Claim, state store.State) {
		want[c.ID.String()] = state
		batch = append(batch, c)
	}
	owners := []*store.Owner{{ID: "one"}, {ID: "two", Label: `a "quoted" <label> \ of 漢字`}}
	for i := range 12 {
		c := testkit.Held(t, s, claim(fmt.Sprintf("held-%d", i)))
		c.TTL += time.Duration(i%3) * time.Second
		c.Grace, c.Turn, c.Owner = time.Duration(i%2)*time.Second, uint8(i%2), owners[i%2]
		if i%4 == 3 {
			c.Ticket = 0
		}
		add(c, store.Held)
	}
	testkit.Held(t, other, claim("taken"))
	add(testkit.Waiting(t, s, claim("taken")), store.Waiting)
	gone := testkit.Held(t, s, claim("gone"))
	testkit.Leave(t, s, gone)
	add(gone, store.Gone)
	shrunk := testkit.Held(t, s, claim("shrunk"))
	shrunk.Units = 1
	add(shrunk, store.Held)
	for round := range 3 {
		statuses, err := s.Keep(t.Context(), batch)
		testkit.Must(t, err)
		for i, status := range statuses {
			c := &batch[i]
			if status.Err != nil || status.State != want[c.ID.String()] {
				t.Fatalf("round %d: claim %d of %q: %+v, want %v", round, i, c.Name, status, want[c.ID.String()])
			}
			if status.State == store.Gone {
				continue
			}
			if status.Ticket == 0 || c.Ticket != 0 && c.Ticket != status.Ticket {
				t.Errorf("round %d: claim %d of %q has ticket %d, and %d before", round, i, c.Name, status.Ticket, c.Ticket)
			}
			h.checkRenewed(t, c)
		}
		batch = append(batch[5:], batch[:5]...)
	}
	testkit.Held(t, s, share("shrunk"))
}

// share is a claim for one unit of a lock.
func share(name string) store.Claim {
	c := claim(name)
	c.Units = 1
	return c
}

// checkRenewed checks that the row of a claim has what the claim brought.
func (h *harness) checkRenewed(t testing.TB, c *store.Claim) {
	t.Helper()
	var units, ttl, grace, turn, left int64
	var owner, label string
	testkit.Must(t, h.db.QueryRow(`SELECT units, ttl, grace, turn, deadline - ttl - grace -
		TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), COALESCE(JSON_VALUE(details, '$.id'), ''),
		COALESCE(JSON_VALUE(details, '$.label'), '') FROM locks.holdfast_claims WHERE id = ?`, c.ID.String()).
		Scan(&units, &ttl, &grace, &turn, &left, &owner, &label))
	if units != int64(c.Units) || ttl != c.TTL.Microseconds() || grace != c.Grace.Microseconds() ||
		turn != int64(c.Turn) || owner != c.Owner.ID || label != c.Owner.Label {
		t.Errorf("the row of %q has %d units, ttl %d, grace %d, turn %d, owner %q, label %q", c.Name, units, ttl, grace,
			turn, owner, label)
	}
	if left > 0 || left < -10_000_000 {
		t.Errorf("%q was renewed %d µs ago", c.Name, -left)
	}
}

// TestKeepAlike: a batch has exclusive claims that are alike, until something happens to one of them. Its result says
// so, and the others are renewed.
func TestKeepAlike(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, other := h.open(t), h.open(t)
	for what, c := range map[string]struct {
		happens func(t *testing.T, c *store.Claim)
		want    store.State
		problem error
	}{
		"nothing": {func(*testing.T, *store.Claim) {}, store.Held, nil},
		"left":    {func(t *testing.T, c *store.Claim) { testkit.Leave(t, s, *c) }, store.Gone, nil},
		"left, and taken": {func(t *testing.T, c *store.Claim) {
			testkit.Leave(t, s, *c)
			testkit.Held(t, other, claim(c.Name))
		}, store.Gone, nil},
		"a waiter":            {func(t *testing.T, c *store.Claim) { testkit.Waiting(t, other, claim(c.Name)) }, store.Held, nil},
		"its ticket is lost":  {func(_ *testing.T, c *store.Claim) { c.Ticket = 0 }, store.Held, nil},
		"its ticket is wrong": {func(_ *testing.T, c *store.Claim) { c.Ticket++ }, store.Held, nil},
		"it has expired": {func(t *testing.T, c *store.Claim) {
			h.exec(t, "UPDATE holdfast_claims SET deadline = 1 WHERE name = '"+c.Name+"'")
		}, store.Gone, nil},
		"it has another ttl": {func(t *testing.T, c *store.Claim) {
			h.exec(t, "UPDATE holdfast_claims SET ttl = ttl - 1 WHERE name = '"+c.Name+"'")
		}, store.Held, nil},
		"it has another label": {func(t *testing.T, c *store.Claim) {
			h.exec(t, "UPDATE holdfast_claims SET details = '{}' WHERE name = '"+c.Name+"'")
		}, store.Held, nil},
		"a newer row": {func(t *testing.T, c *store.Claim) { testkit.Must(t, h.PlantNewer(c.Name)) }, store.Held,
			store.ErrFormat},
	} {
		t.Run(what, func(t *testing.T) {
			var batch []store.Claim
			for i := range 9 {
				batch = append(batch, testkit.Held(t, s, claim(fmt.Sprintf("%s %d", what, i))))
				batch[i].Owner = batch[0].Owner
			}
			h.exec(t, "UPDATE holdfast_claims SET deadline = deadline - 30000000 WHERE name LIKE '"+what+" %'")
			c.happens(t, &batch[4])
			statuses, err := s.Keep(t.Context(), batch)
			testkit.Must(t, err)
			for i, status := range statuses {
				switch {
				case i == 4 && c.problem != nil:
					if !errors.Is(status.Err, c.problem) {
						t.Errorf("it has %v, want %v", status.Err, c.problem)
					}
				case i == 4 && (status.Err != nil || status.State != c.want):
					t.Errorf("it is %+v, want %v", status, c.want)
				case i != 4 && (status.Err != nil || status.State != store.Held || status.Ticket != batch[i].Ticket):
					t.Errorf("claim %d is %+v", i, status)
				case i != 4 || c.want == store.Held:
					h.checkRenewed(t, &batch[i])
				}
			}
		})
	}
}

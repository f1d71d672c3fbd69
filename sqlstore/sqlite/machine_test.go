package sqlite

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// TestAnotherMachineStaysRefused: the machine that was refused does not take the file back with its next try, which
// would take away what the other one holds.
func TestAnotherMachineStaysRefused(t *testing.T) {
	path := newPath(t)
	here := open(t, path)
	join(t, here, newClaim("x"), store.Held)
	there := open(t, path, started("elsewhere", time.Hour))
	theirs := newClaim("y")
	join(t, there, theirs, store.Held)
	for _, name := range []string{"free", "y", "free"} {
		if a, err := here.Join(t.Context(), newClaim(name)); !store.Final(err) {
			t.Errorf("%s: %v, %v", name, a.State, err)
		}
	}
	if a, err := there.Keep(t.Context(), []store.Claim{*theirs}); err != nil || a[0].State != store.Held {
		t.Errorf("the other machine's claim: %v, %v", a, err)
	}
}

// TestMachineStartedAnewForgets tombstones too, and nothing that is of a newer format.
func TestMachineStartedAnewForgets(t *testing.T) {
	path := newPath(t)
	e := open(t, path)
	check(t, e.Leave(t.Context(), newClaim("x")))
	join(t, e, newClaim("y"), store.Held)
	operate(t, path, "UPDATE holdfast_claims SET format = ?", format+1)
	check(t, e.Close())
	open(t, path, started("another start", 0))
	if n := countRows(t, path, "holdfast_tombstones"); n != 0 {
		t.Errorf("%d tombstones are left", n)
	}
	if n := countRows(t, path, "holdfast_claims"); n != 1 {
		t.Errorf("%d rows of a newer format are left of 1", n)
	}
}

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
	theirs := joined(t, there, "y", store.Held)
	for _, name := range []string{"free", "y", "free"} {
		if a, err := here.Join(t.Context(), newClaim(name)); !store.Final(err) {
			t.Errorf("%s: %v, %v", name, a.State, err)
		}
	}
	keep(t, there, theirs, store.Held)
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
	wantRows(t, path, 0, "holdfast_tombstones")
	wantRows(t, path, 1, "holdfast_claims")
}

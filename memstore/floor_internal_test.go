package memstore

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// TestClockSetBackDoesNotRefuseOwnTickets: the server began while its clock was two days ahead, and was set right. What
// it gave itself since is no floor that it must refuse.
func TestClockSetBackDoesNotRefuseOwnTickets(t *testing.T) {
	s := NewServer()
	s.ticket = uint64(time.Now().Add(2 * store.FloorAhead).UnixMicro())
	st := s.Connect()
	claim := store.Claim{
		ID: store.ID{1}, Name: "x", TTL: time.Second, Owner: &store.Owner{},
		Demand: store.Demand{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders},
	}
	first, err := st.Join(t.Context(), claim)
	if err != nil {
		t.Fatal(err)
	}
	claim.Ticket = first.Ticket
	if err := st.Leave(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	claim.ID, claim.Ticket, claim.Floor = store.ID{2}, 0, first.Ticket
	second, err := st.Join(t.Context(), claim)
	if err != nil || second.Ticket <= first.Ticket {
		t.Fatalf("its own ticket as the floor: %d after %d, %v", second.Ticket, first.Ticket, err)
	}
	claim.ID, claim.Floor = store.ID{3}, second.Ticket+1
	if _, err := st.Join(t.Context(), claim); !errors.Is(err, store.ErrFloor) {
		t.Fatalf("a floor that it never gave, and far ahead: %v", err)
	}
}

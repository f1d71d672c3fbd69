package memstore_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// TestWaitingIsNotDetached: a claim that was believed held, and waits, is neither detached nor attached.
func TestWaitingIsNotDetached(t *testing.T) {
	s := memstore.New()
	defer s.Close()
	claim := func(id byte) store.Claim {
		return store.Claim{
			ID: store.ID{id}, Name: "x", TTL: time.Minute, Owner: &store.Owner{},
			Demand: store.Demand{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders},
		}
	}
	for i := range byte(2) {
		_, err := s.Join(t.Context(), claim(i+1))
		testkit.Must(t, err)
	}
	status, err := s.Detach(t.Context(), claim(2), store.ID{3}, time.Hour)
	if err != nil || status.State != store.Gone {
		t.Errorf("Detach of a waiting claim: %v, %v", status.State, err)
	}
	status, err = s.Attach(t.Context(), claim(4), store.ID{2})
	if err != nil || status.State != store.Gone {
		t.Errorf("Attach of a waiting claim: %v, %v", status.State, err)
	}
}

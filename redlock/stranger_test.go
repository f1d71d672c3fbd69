package redlock_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// TestStrangersTicket: what another program has put under the key ends like a ticket, and is none. It is waited for as
// for any other.
func TestStrangersTicket(t *testing.T) {
	t.Parallel()
	f := newCalmFleet(t, 3)
	s := f.open(t)
	for _, n := range f.nodes {
		do(t, n, "SET", "theirs", "a ticket 99999999999999999999999999", "PX", "600000")
	}
	c := claimOf("theirs")
	if standing, err := s.Join(t.Context(), c); err != nil || standing.State != store.Waiting {
		t.Errorf("Join: %v, %v", standing.State, err)
	}
	testkit.Must(t, s.Leave(t.Context(), c))
	line, err := s.Queue(t.Context(), "theirs")
	if err != nil || len(line.Entries) != 1 || line.Entries[0].Ticket != 0 ||
		!strings.Contains(line.Entries[0].Owner.Label, "a ticket 999") {
		t.Errorf("Line: %+v, %v", line, err)
	}
}

package redlock_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// TestBreakAtBareMajority: a lock is held at two of three nodes, and whoever breaks it reaches one of them and the third. The
// holder must not go on with the third, which had no key and would get one by its next renewal.
func TestBreakAtBareMajority(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.query = "max-ttl=4s"
	s, operator := f.open(t), f.open(t)
	c := claimOf("broken")
	c.TTL = 4 * time.Second
	c.Ticket = hold(t, s, c).Ticket
	for _, n := range f.nodes {
		eventually(t, "the node has it", func() bool { return do(t, n, "EXISTS", "broken") == int64(1) })
	}
	do(t, f.nodes[2], "DEL", "broken")
	must(t, f.nodes[1].Pause())
	err := operator.Break(t.Context(), "broken", c.Ticket)
	must(t, f.nodes[1].Continue())
	must(t, err)
	if all, err := s.Keep(t.Context(), []store.Claim{c}); err != nil || all[0].State != store.Gone {
		t.Errorf("Keep of a lock that was broken: %+v, %v", all, err)
	}
}

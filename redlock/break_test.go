package redlock_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/store"
)

// TestBreakAtBareMajority: a lock is held at two of three nodes, and whoever breaks it reaches one of them and the
// third. The holder must not go on with the third, which had no key and would get one by its next renewal.
func TestBreakAtBareMajority(t *testing.T) {
	t.Parallel()
	f := newCalmFleet(t, 3)
	// Who waits no longer for a node that is paused.
	s, operator := f.open(t), f.open(t, redlock.WithNodeTimeout(500*time.Millisecond))
	c := testkit.Held(t, s, claimOf("broken"))
	for _, n := range f.nodes {
		testkit.Await(t, "the node has it", func() bool { return do(t, n, "EXISTS", "broken") == int64(1) })
	}
	do(t, f.nodes[2], "DEL", "broken")
	testkit.Must(t, f.nodes[1].Pause())
	err := operator.Break(t.Context(), "broken", c.Ticket)
	testkit.Must(t, f.nodes[1].Continue())
	testkit.Must(t, err)
	testkit.Keep(t, s, c, store.Gone)
}

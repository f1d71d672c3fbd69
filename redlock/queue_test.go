package redlock_test

import (
	"strings"
	"testing"
)

// TestLineWithTwoDown: two of five nodes are down, so that who has two of the others may hold, and who has one as well.
// It is the first who is shown, each time.
func TestLineWithTwoDown(t *testing.T) {
	t.Parallel()
	f := newCalmFleet(t, 5)
	s := f.open(t)
	for i, value := range []string{"loser", "holder", "holder"} {
		do(t, f.nodes[i], "SET", "who", value, "PX", "600000")
	}
	f.kill(3)
	f.kill(4)
	for range 20 {
		line, err := s.Queue(t.Context(), "who")
		if err != nil || len(line.Entries) != 1 || !strings.Contains(line.Entries[0].Owner.Label, "holder") {
			t.Fatalf("%+v, %v", line, err)
		}
	}
}

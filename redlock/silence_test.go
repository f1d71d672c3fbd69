package redlock_test

import (
	"strings"
	"testing"
)

// TestSilence: an error says how long a node was waited for, and not how long it might have been.
func TestSilence(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	s := f.open(t)
	for _, i := range []int{1, 2} {
		must(t, f.nodes[i].Pause())
		t.Cleanup(func() { must(t, f.nodes[i].Continue()) })
	}
	err := s.Leave(t.Context(), claimOf("unknown"))
	if err == nil || strings.Count(err.Error(), "no answer in ") != 2 || strings.Contains(err.Error(), "no answer in 2s") {
		t.Errorf("it was waited for less than two seconds: %v", err)
	}
}

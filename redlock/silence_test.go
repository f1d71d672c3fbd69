package redlock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/redlock"
)

// TestSilence: an error says how long a node was waited for, and not how long it might have been.
func TestSilence(t *testing.T) {
	t.Parallel()
	f := newCalmFleet(t, 3)
	s := f.open(t, redlock.WithNodeTimeout(time.Second))
	f.pause(f.nodes[1:]...)
	began := time.Now()
	err := s.Leave(t.Context(), claimOf("unknown"))
	took := time.Since(began)
	if err == nil {
		t.Fatal("it left at a minority")
	}
	for _, i := range []int{1, 2} {
		_, said, _ := strings.Cut(err.Error(), f.nodes[i].Addr()+": no response in ")
		said, _, _ = strings.Cut(said, ";")
		waited, wrong := time.ParseDuration(said)
		if wrong != nil || waited < 500*time.Millisecond || waited > took+time.Millisecond {
			t.Errorf("it was waited for %v, and the error says of node %d: %v", took, i, err)
		}
	}
}

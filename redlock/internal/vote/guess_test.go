package vote

import (
	"testing"
	"time"
)

func TestGuess(t *testing.T) {
	var g Guess
	if got := g.Next(time.Second); got != 0 {
		t.Fatalf("%d, and nothing is known", got)
	}
	const mark = uint64(1_700_000_000_000_000)
	g.Saw(8*time.Second, mark)
	g.Saw(8*time.Second, mark-5)
	g.Saw(8*time.Second, MaxTicket+1)
	if a, b := g.Next(8*time.Second), g.Next(8*time.Second); a != mark+1 || b != mark+2 {
		t.Errorf("%d and %d, want one and two more than the mark", a-mark, b-mark)
	}
	// It goes on with time, more slowly than clocks do.
	if got := g.Next(16*time.Second) - mark; got != 4_000_003 {
		t.Errorf("after 8 s %d more", got)
	}
	// Two clients that have seen one mark at different times agree to what is between.
	var other Guess
	other.Saw(0, mark)
	if a, b := other.Next(8*time.Second), g.Next(16*time.Second); a < b-5 || a > b+5 {
		t.Errorf("%d and %d", a-mark, b-mark)
	}
}

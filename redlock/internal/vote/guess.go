package vote

import (
	"sync/atomic"
	"time"
)

// A Guess foretells the marks of the nodes, so that a ticket can be proposed along with the take. A client has one, and
// shows it the mark of every answer. It is only a guess: what a node does not accept costs a second round, and nothing else.
//
// Every proposal is above the last mark that was seen by the time that has passed since. If all clients do so, marks run on
// at one pace, like a clock that they share: a client need not see those of the moment to be above them.
type Guess struct {
	ahead atomic.Int64 // of the pace, in microseconds; 0: nothing is known yet
}

// pace is how far marks run on in a time, in microseconds: half as fast as clocks. A node that has lost its data begins by
// its clock, and must be above all marks from before, whatever was counted on top of the pace.
func pace(now time.Duration) int64 { return now.Microseconds() / 2 }

// Saw notes a mark that is now at a node.
func (g *Guess) Saw(now time.Duration, mark uint64) {
	if mark == 0 || mark > MaxTicket {
		return
	}
	ahead := int64(mark) - pace(now)
	for old := g.ahead.Load(); ahead > old; old = g.ahead.Load() {
		if g.ahead.CompareAndSwap(old, ahead) {
			return
		}
	}
}

// Next is a ticket to propose; 0: nothing is known yet. It is another each time.
func (g *Guess) Next(now time.Duration) uint64 {
	if g.ahead.Load() == 0 {
		return 0
	}
	return uint64(g.ahead.Add(1) + pace(now)) //nolint:gosec // a mark, and more
}

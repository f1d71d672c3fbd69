package vote

import (
	"sync/atomic"
	"time"
)

// A Guess predicts the marks of the nodes, so that a ticket can be proposed with the take. A client has one, and passes
// the mark of every answer to it. It is only a guess: a proposal that is not accepted costs a second round, and nothing
// else.
//
// Every proposal is above the last mark that was seen, by half of the time that has passed since. If all clients do so,
// marks advance at one pace, like a shared clock: a client need not know the current marks to be above them.
type Guess struct {
	ahead atomic.Int64 // of the pace, in microseconds; 0: unknown
}

// pace returns how far marks advance in a time, in microseconds: half as fast as clocks. A node that has lost its data
// begins with its clock, and must be above all earlier marks, whatever was added to the pace.
func pace(now time.Duration) int64 { return now.Microseconds() / 2 }

// Saw records the current mark of a node.
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

// Next returns a ticket to propose, a different one each time, or 0 if nothing is known yet.
func (g *Guess) Next(now time.Duration) uint64 {
	if g.ahead.Load() == 0 {
		return 0
	}
	return uint64(g.ahead.Add(1) + pace(now)) //nolint:gosec // a mark, and more
}

package frame

import (
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Drift is how much earlier than its server a client takes a claim for expired, since their clocks don't tick alike.
type Drift struct {
	Part float64       // of the ttl: how much the two clocks may differ in pace
	Plus time.Duration // what the server rounds off
}

// Clocks is the drift of two clocks that differ in pace by 1 %, with a server that counts whole milliseconds.
var Clocks = Drift{Part: 0.01, Plus: 2 * time.Millisecond}

// OneClock is the drift of a client and a server on one clock. It covers the moment between two instructions.
var OneClock = Drift{Plus: time.Millisecond}

// Of returns the drift over a ttl.
func (d Drift) Of(ttl time.Duration) time.Duration {
	return time.Duration(float64(ttl)*d.Part) + d.Plus
}

// Until is the instant up to which a claim in this state is valid whose acknowledged Join or Keep was sent then (rule 5
// of package store). It is zero for a claim that is gone.
func (d Drift) Until(state store.State, sent time.Time, ttl time.Duration) time.Time {
	if state == store.Gone {
		return time.Time{}
	}
	return sent.Add(ttl - d.Of(ttl))
}

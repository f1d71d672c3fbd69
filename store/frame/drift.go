package frame

import (
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Drift is how much earlier than its server a client considers a claim expired: their clocks may run at different
// rates.
type Drift struct {
	Part float64       // of the ttl: how much the two clocks may differ in pace
	Plus time.Duration // what the server rounds off
}

// Clocks is the drift of two clocks whose rates differ by 1 %, with a server that counts whole milliseconds.
var Clocks = Drift{Part: 0.01, Plus: 2 * time.Millisecond}

// OneClock is the drift of a client and a server that use the same clock. It covers the time between two instructions.
var OneClock = Drift{Plus: time.Millisecond}

// Of returns the drift over a ttl.
func (d Drift) Of(ttl time.Duration) time.Duration {
	return time.Duration(float64(ttl)*d.Part) + d.Plus
}

// Until returns the instant up to which a claim in this state is valid if its last acknowledged Join or Keep was sent
// at sent (rule 5 of package store). It is zero for a claim that is gone.
func (d Drift) Until(state store.State, sent time.Time, ttl time.Duration) time.Time {
	if state == store.Gone {
		return time.Time{}
	}
	return sent.Add(ttl - d.Of(ttl))
}

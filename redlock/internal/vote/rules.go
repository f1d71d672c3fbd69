package vote

import "time"

// Rules are the settings of all claims of a client. Nodes and MaxTTL must be the same for all clients of a deployment.
type Rules struct {
	Nodes  int           // the number of nodes: odd, at least 3
	MaxTTL time.Duration // the longest ttl of a claim, and how long a node without its data has no vote
	// A ticket is granted even if no majority has it yet: never a second round, and tickets may fall.
	Unsaved bool

	NodeTimeout time.Duration // how long one node may take to answer; 0: a small part of the ttl, 50 ms at most

	DriftPart float64       // the part of a ttl by which clocks may differ in pace
	Retry     time.Duration // the first pause of a claim that lost a vote, before it is spread; 0: 4 ms
	Poll      time.Duration // how long to wait at most for a release that is not published; 0: 1 s

	// Chance returns a random duration from 0 up to less than its argument, which is positive.
	Chance func(time.Duration) time.Duration

	Without Without // for controls only
}

// Majority returns how many nodes are a majority.
func (r *Rules) Majority() int { return r.Nodes/2 + 1 }

// Timeout returns how long a node may take to answer a claim with this ttl.
func (r *Rules) Timeout(ttl time.Duration) time.Duration {
	if r.NodeTimeout > 0 {
		return min(r.NodeTimeout, ttl)
	}
	return min(ttl/20, 50*time.Millisecond)
}

// until returns until when a holder may believe what a majority answered to requests sent at the given time.
func (r *Rules) until(sent, now, ttl time.Duration) time.Duration {
	if r.Without.Has(TimeFromSent) {
		sent = now
	}
	if r.Without.Has(Drift) {
		return sent + ttl
	}
	return sent + ttl - time.Duration(float64(ttl)*r.DriftPart) - tick
}

// tick allows for the rounding of the clocks of nodes.
const tick = 2 * time.Millisecond

// chance returns a random time from half of d to one and a half of it.
func (r *Rules) chance(d time.Duration) time.Duration {
	if r.Without.Has(Jitter) || d <= 1 {
		return d
	}
	return d/2 + r.Chance(d)
}

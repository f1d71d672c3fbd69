package vote

import "time"

// Rules are what all claims of a client go by. Nodes and MaxTTL must be the same for all clients of a deployment.
type Rules struct {
	Nodes   int           // how many there are: odd, from 3
	MaxTTL  time.Duration // the longest ttl of a claim, and how long a node without its data has no vote
	Unsaved bool          // a ticket is given even if no majority has it yet: never a second round, and they may fall

	NodeTimeout time.Duration // how long one node may take to answer; 0: a small part of the ttl, 50 ms at most

	DriftPart float64       // the part of a ttl by which clocks may differ in pace
	Retry     time.Duration // the first pause of who lost a vote, before it is spread; 0: 4 ms
	Poll      time.Duration // how long to wait at most for a release that is not told; 0: 1 s

	// Chance gives a random duration from 0 up to less than its argument, which is positive.
	Chance func(time.Duration) time.Duration

	Without Without // for controls only
}

// Majority is how many nodes are one.
func (r *Rules) Majority() int { return r.Nodes/2 + 1 }

// Timeout is how long one node may take to answer a claim with this ttl.
func (r *Rules) Timeout(ttl time.Duration) time.Duration {
	if r.NodeTimeout > 0 {
		return min(r.NodeTimeout, ttl)
	}
	return min(ttl/20, 50*time.Millisecond)
}

// until is up to when a holder may believe what a majority answered to requests sent at the given time.
func (r *Rules) until(sent, now, ttl time.Duration) time.Duration {
	if r.Without.Has(TimeFromSent) {
		sent = now
	}
	if r.Without.Has(Drift) {
		return sent + ttl
	}
	return sent + ttl - time.Duration(float64(ttl)*r.DriftPart) - tick
}

// tick is for what the clocks of nodes round off.
const tick = 2 * time.Millisecond

// chance spreads d: from half of it to half as much again.
func (r *Rules) chance(d time.Duration) time.Duration {
	if r.Without.Has(Jitter) || d <= 1 {
		return d
	}
	return d/2 + r.Chance(d)
}

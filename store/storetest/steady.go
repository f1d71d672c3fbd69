package storetest

import (
	"strings"
	"testing"
	"time"
)

// beat is the interval of the ticks by which a stalled machine is detected.
const beat = 10 * time.Millisecond

// steady observes the machine until end is called, which returns for how long it was stalled at most.
func steady() (end func() time.Duration) {
	ticker := time.NewTicker(beat)
	stop, gap := make(chan struct{}), make(chan time.Duration)
	go func() { gap <- longestGap(ticker.C, stop) }()
	return func() time.Duration {
		ticker.Stop()
		close(stop)
		return <-gap
	}
}

// longestGap returns the longest time between two received ticks, or from the last one to the end.
func longestGap(ticks <-chan time.Time, stop <-chan struct{}) (longest time.Duration) {
	for last := time.Now(); ; {
		select {
		case <-ticks:
		case <-stop:
			return max(longest, time.Since(last))
		}
		now := time.Now()
		longest, last = max(longest, now.Sub(last)), now
	}
}

// A case runs at most mostPlays times: a machine may be busy for a minute. The last verdict counts whatever the machine
// did.
const mostPlays = 8

// playSteadily runs a case in real time. The promises of a store assume a machine that runs: a failure while the
// machine or the server was stalled for that long proves nothing, and the case is repeated. It is also repeated if all
// failures are calls without a response in time.
func playSteadily(
	t testing.TB,
	stall time.Duration,
	play func() outcome,
	steady func() (end func() time.Duration),
) outcome {
	for plays := 1; ; plays++ {
		end := steady()
		o := play()
		gap := end()
		silent := o.silences == len(o.failures)
		if len(o.failures) == 0 || gap < stall && !silent || plays == mostPlays {
			return o
		}
		t.Logf("repeated, since the machine or the server was stalled for %v while this failed:\n%s",
			gap, strings.Join(o.failures, "\n"))
	}
}

package storetest

import (
	"strings"
	"testing"
	"time"
)

// beat is how often a machine that runs gets to tick.
const beat = 10 * time.Millisecond

// steady watches the machine until end, which says for how long it stood still at most.
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

// withServers makes of the machine's end one that has the servers stand still for a ttl if the harness has noticed anything.
func withServers(h Harness, ttl time.Duration, machine func() time.Duration) (end func() time.Duration) {
	r, ok := h.(Restless)
	if !ok {
		return machine
	}
	before := r.Unrest()
	return func() time.Duration {
		gap := machine()
		if r.Unrest() != before {
			return max(gap, ttl)
		}
		return gap
	}
}

// longestGap is the longest time from one tick to when the next could be heard, or to the end.
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

// mostPlays is how often a case is played, and mostSilent if all that failed is that the server was silent: what starves
// it may last for a minute. The last verdict counts whatever the machine did.
const (
	mostPlays  = 3
	mostSilent = 8
)

// playSteadily plays a case in real time. What a store promises it promises on a machine that runs: a failure while that
// stood still for a good part of a ttl says nothing, and the case is played again. So it is if all that failed are calls
// that the server did not answer in time: servers that are starved answer late while the machine seems to run.
func playSteadily(t testing.TB, ttl time.Duration, play func() outcome, steady func() (end func() time.Duration)) outcome {
	for plays := 1; ; plays++ {
		end := steady()
		o := play()
		gap := end()
		most, silent := mostPlays, o.silences == len(o.failures)
		if silent {
			most = mostSilent
		}
		if len(o.failures) == 0 || gap < ttl/4 && !silent || plays >= most {
			return o
		}
		t.Logf("to be played again, since the machine stood still for %v, or the server was silent, while this failed:\n%s",
			gap, strings.Join(o.failures, "\n"))
	}
}

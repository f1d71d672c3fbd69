package storetest

import (
	"testing"
	"time"
)

// A Verdict is the result of one case.
type Verdict struct {
	Rule    int
	Case    string
	Failure string // empty: it passed
}

// Judge runs the suite as RunFake does, and returns the verdicts instead of failing t.
func Judge(t *testing.T, newHarness func(t testing.TB) Harness) []Verdict {
	short := fakeTime
	short.rounds, short.many = 3, 30 // a mistake shows early
	var verdicts []Verdict
	for _, r := range suite {
		for _, s := range r.cases {
			o := s.playFake(t, newHarness, short)
			if o.skipped != "" { // a bubble has no monotonic clock
				o = s.play(t, newHarness(t), realTime)
			}
			v := Verdict{Rule: r.number, Case: r.name + "/" + s.name}
			if len(o.failures) > 0 {
				v.Failure = r.explain(o.failures)
			}
			verdicts = append(verdicts, v)
		}
	}
	return verdicts
}

// StartProbe starts a probe of the harness's server, and returns its observe.
func StartProbe(t testing.TB, h Harness) (observe func() (end func() time.Duration)) {
	return startProbe(t, h).observe
}

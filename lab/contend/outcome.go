package contend

import (
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// An Outcome is what a crowd leaves behind.
type Outcome struct {
	Holds   []history.Hold // of all processes, also of those that were killed, in order of their beginning
	Reports []Report       // of those that were not killed
}

// Findings is what the holds show that must not be: see packages check and history.
func (o *Outcome) Findings() []check.Finding {
	return append(check.Overlap(o.Holds), check.Tokens(o.Holds)...)
}

// Outside is the holds that have no part in an interval: they ended before it, or began after it.
func (o *Outcome) Outside(v history.Interval) []history.Hold {
	var outside []history.Hold
	for _, h := range o.Holds {
		if h.End < v.Begin || h.Begin > v.End {
			outside = append(outside, h)
		}
	}
	return outside
}

// Total is the sum of all reports.
func (o *Outcome) Total() Report {
	total := Report{Process: "all", Faults: map[string]int{}, Wrong: map[string]int{}}
	for _, r := range o.Reports {
		total.Acquired += r.Acquired
		total.Lost += r.Lost
		for text, n := range r.Faults {
			total.Faults[text] += n
		}
		for text, n := range r.Wrong {
			total.Wrong[text] += n
		}
	}
	return total
}

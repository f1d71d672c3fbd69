package report

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// Worker returns the worker of this name. It adds it after the others if there is none.
func (r *Run) Worker(who history.Who) *Worker {
	for _, w := range r.Workers {
		if w.Who == who {
			return w
		}
	}
	w := &Worker{Who: who}
	r.Workers = append(r.Workers, w)
	return w
}

// AddHolds adds a span for each hold to its worker.
func (r *Run) AddHolds(holds []history.Hold) {
	workers := map[history.Who]*Worker{}
	for _, h := range holds {
		w := workers[h.Who]
		if w == nil {
			w = r.Worker(h.Who)
			workers[h.Who] = w
		}
		w.Spans = append(w.Spans, Span{
			State: Holding, Interval: h.Interval, Open: h.Open,
			Resource: h.Resource, Kind: h.Kind, Units: h.Units, Limit: h.Limit, Token: h.Token,
		})
	}
}

// AddToProcess adds a span to each worker of a process that the run has so far, as when the process is paused or killed.
func (r *Run) AddToProcess(process string, s Span) {
	for _, w := range r.Workers {
		if w.Process == process {
			w.Spans = append(w.Spans, s)
		}
	}
}

// maxFindings is after how many findings the checks of package check stop.
const maxFindings = 100

// AddCheck adds what a check of package check has found among a number of holds. More than one such check may be about
// one property: then found is what they found together.
func (r *Run) AddCheck(name, property string, judged int, found []check.Finding) {
	c := Check{Name: name, Property: property, Judged: judged, More: len(found) >= maxFindings}
	for _, f := range found {
		at := f.Interval
		if len(f.Holds) > 0 {
			at = together(f.Holds)
		}
		if at == (history.Interval{}) { // it has no time
			at = r.Interval
		}
		c.Findings = append(c.Findings, Finding{
			Rule: string(f.Rule), Resource: f.Resource, Interval: at, Holds: f.Holds, Text: sentence(f),
		})
	}
	r.Checks = append(r.Checks, c)
}

// together is the time that holds have in common. If there is none, it is the moment when the last of them began.
func together(holds []history.Hold) history.Interval {
	if len(holds) == 0 {
		return history.Interval{}
	}
	common := holds[0].Interval
	for _, h := range holds[1:] {
		common.Begin, common.End = max(common.Begin, h.Begin), min(common.End, h.End)
	}
	common.End = max(common.Begin, common.End)
	return common
}

// sentence is the text of a finding without its rule, its resource and its holds, which a report shows apart.
func sentence(f check.Finding) string {
	text, _, _ := strings.Cut(f.Text, "\n")
	text = strings.TrimPrefix(text, fmt.Sprintf("%s: resource %q: ", f.Rule, f.Resource))
	return strings.TrimSuffix(text, ":")
}

package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// Worker returns the worker of this name. If there is none, it appends one.
func (r *Run) Worker(who history.Who) *Worker {
	if i := slices.IndexFunc(r.Workers, func(w *Worker) bool { return w.Who == who }); i >= 0 {
		return r.Workers[i]
	}
	w := &Worker{Who: who}
	r.Workers = append(r.Workers, w)
	return w
}

// AddHistory adds a span for each wait, each hold and each loss in a history, and for each update of a register that
// was acknowledged or refused, to its worker. It adds workers that the run does not have in the order of their names.
func (r *Run) AddHistory(h *history.History) {
	before := len(r.Workers)
	known := map[history.Who]*Worker{} // so that r.Worker searches for each only once
	add := func(who history.Who, s Span) {
		w := known[who]
		if w == nil {
			w = r.Worker(who)
			known[who] = w
		}
		w.Spans = append(w.Spans, s)
	}
	for _, hold := range h.Holds {
		s := Span{
			State: Holding, Interval: hold.Interval, Open: hold.Open,
			Resource: hold.Resource, Kind: hold.Kind, Units: hold.Units, Limit: hold.Limit, Token: hold.Token,
		}
		add(hold.Who, s)
		if hold.Lost != 0 {
			s.State, s.Interval = Lost, history.Interval{Begin: hold.End, End: max(hold.End, hold.Lost)}
			add(hold.Who, s)
		}
	}
	for _, w := range h.Waits {
		s := Span{
			State: Waiting, Interval: w.Interval, Open: w.Open,
			Resource: w.Resource, Kind: w.Kind, Units: w.Units, Limit: w.Limit, Token: w.Token,
		}
		if !w.Granted && !w.Open {
			s.Note = "gave up"
		}
		add(w.Who, s)
	}
	for _, o := range h.Operations {
		if state, ended := endOfUpdate[o.Outcome]; ended && o.Update {
			add(o.Who, Span{
				State: state, Interval: history.Interval{Begin: o.End, End: o.End},
				Resource: o.Register, Token: o.Token, Note: fmt.Sprintf("%q to %q", o.Old, o.New),
			})
		}
	}
	slices.SortStableFunc(r.Workers[before:], func(a, b *Worker) int { return compareWorkers(a.Who, b.Who) })
}

// endOfUpdate has what an update is in the timeline, if its end is known.
var endOfUpdate = map[history.Outcome]State{history.Acknowledged: Wrote, history.Refused: Refused}

// AddHolds adds a span for each hold to its worker, and one for its loss if it was lost: from the last moment when the
// holder was sure to when it knew of the loss. It adds workers as AddHistory does.
func (r *Run) AddHolds(holds []history.Hold) { r.AddHistory(&history.History{Holds: holds}) }

// AddToProcess adds a span to each worker of a process that the run has so far, as when the process is paused or
// killed.
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
			Rule: string(f.Rule), Resource: f.Resource, Interval: at, Holds: f.Holds, Workers: f.By, Text: sentence(f),
		})
	}
	r.Checks = append(r.Checks, c)
}

// together is the time that holds, of which there is one at least, have in common. If there is none, it is the moment
// when the last of them began.
func together(holds []history.Hold) history.Interval {
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

package broken

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/lab/report"
)

// Reports returns both plays of a rung as runs of the lab: that of the broken lock, and that of Holdfast's.
func (o *Outcome) Reports() (broken, holdfast *report.Run) {
	return o.report(o.Broken, "the broken lock: "+o.Rung.What), o.report(o.Holdfast, "Holdfast: "+o.Rung.Store)
}

func (o *Outcome) report(p *Performance, lock string) *report.Run {
	run := &report.Run{
		Title: "holdfast lab: " + o.Rung.Name, Store: lock,
		Command: fmt.Sprintf("holdfast lab run %s --seed %d", o.Rung.Name, o.Seed), Seed: o.Seed,
		Started: p.Started, Interval: p.Interval, Operations: len(p.Waits) + len(p.Operations),
	}
	run.AddHistory(p.History)
	run.Workers = slices.DeleteFunc(run.Workers, func(w *report.Worker) bool { return w.Client == shop })
	for _, f := range p.Faults {
		run.Faults = append(run.Faults, report.Fault{Name: f.Name, Target: f.Target, Interval: f.Interval})
		for _, w := range run.Workers {
			if state, ofPlayer := states[f.Name]; ofPlayer && w.Client == f.Target {
				w.Spans = append(w.Spans, report.Span{State: state, Interval: f.Interval})
			}
		}
	}
	for _, c := range p.Checks {
		run.AddCheck(c.Name, c.Property, c.Judged, c.Findings)
	}
	return run
}

// states has the states of a player under the faults of its process.
var states = map[string]report.State{killed: report.Killed, stopped: report.Paused}

package verify

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/contend"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/report"
)

// newRun returns a report with the parameters of the run.
func (s *stage) newRun(started time.Time) *report.Run {
	r := &report.Run{
		Title: "holdfast verify", Store: s.can.Store, Command: s.plan.Again, Seed: s.plan.Seed,
		Started: started, Interval: history.Interval{Begin: s.began, End: history.Now()},
	}
	for _, f := range s.struck {
		r.Faults = append(r.Faults, f.Fault)
	}
	return r
}

// judge fills the report with what was recorded, and with the results of the checks.
func (s *stage) judge(run *report.Run, h *history.History, total contend.Report, lines []holdfast.Queue) {
	run.Operations = len(h.Waits) + len(h.Operations)
	run.AddHistory(h)
	for _, done := range s.spans {
		run.AddToProcess(done.process, done.Span)
	}
	j := &judgement{run: run, stage: s}
	j.check("mutual exclusion",
		"Holds that exclude each other are never believed at once, and the units held of a semaphore never exceed "+
			"its limit.", len(h.Holds), check.Overlap(h.Holds))
	j.check("fencing tokens",
		"Every exclusive hold has a greater token than all holds before it, and no two claims have the same ticket.",
		len(h.Holds), check.Tokens(h.Holds))
	j.check("succession",
		"No hold begins before the time has passed that an earlier holder, paused or cut off, was promised.",
		len(h.Holds), check.Succession(h.Holds))
	if s.can.Queue {
		j.check("first come, first served",
			"A claim that was acknowledged before another was sent has the smaller ticket, and is served first.",
			len(h.Arrivals), check.Arrival(h.Arrivals, h.Holds))
	}
	if s.can.Queue {
		j.check("bounded waiting", fmt.Sprintf("While nothing is broken, no wait lasts for longer than %v.", s.bound()),
			len(h.Waits), check.Waiting(h.Waits, s.troubles(), s.bound()))
	} else {
		j.check("progress", fmt.Sprintf("While nothing is broken and somebody waits for a lock, somebody is granted "+
			"it within %v.", s.bound()),
			len(h.Waits), check.Progress(h.Waits, s.troubles(), s.bound()))
	}
	registers := map[string][]history.Operation{}
	for _, o := range h.Operations {
		registers[o.Register] = append(registers[o.Register], o)
	}
	fenced, unfenced := registers[fencedRegister], registers[unfencedRegister]
	run.AddCheck("register behind a fence",
		"The updates of a register behind a fence are linearizable, and none that was acknowledged is lost.",
		len(fenced), check.Register(fenced))
	run.AddCheck("nothing left behind",
		fmt.Sprintf("%v after the last process has ended, nobody stands in a line.", s.takeover+slack),
		len(lines), check.Leftover(lines))
	j.check("errors",
		"A call ends with a lock, a refusal or an error that may pass, and such errors pass when everything is mended.",
		len(h.Waits), append(wrong(total), s.stranded(h.Waits)...))
	if len(s.struck) == 0 {
		run.AddCheck("faults", "While the workers take locks, faults are done to them.", 0, nil)
	}
	run.AddCheck("register without a fence",
		"The same register without a fence, which pauses make lose updates: it shows that the faults would have hurt.",
		len(unfenced), check.Register(unfenced))
	run.Checks[len(run.Checks)-1].Calibration = true
	j.tellExpected()
	figure := func(name string, n int) {
		run.Figures = append(run.Figures, report.Figure{Name: name, Value: float64(n)})
	}
	figure("locks taken", count(h.Waits, func(w history.Wait) bool { return w.Granted }))
	figure("leases lost", count(h.Holds, func(h history.Hold) bool { return h.Lost != 0 }))
	refused := func(o history.Operation) bool { return o.Outcome == history.Refused }
	figure("updates refused by the fence", count(fenced, refused))
	figure("updates lost behind the fence", check.LostUpdates(fenced))
	figure("updates lost without a fence", check.LostUpdates(unfenced))
}

// A judgement separates findings that the store's guarantees allow from violations.
type judgement struct {
	run      *report.Run
	stage    *stage
	expected []check.Finding
}

// check adds a check to the report. Findings that began under a fault that is beyond the guarantees, or soon after it,
// are kept separate.
func (j *judgement) check(name, property string, judged int, found []check.Finding) {
	var violations []check.Finding
	for _, f := range found {
		if j.stage.isBeyond(when(f)) {
			j.expected = append(j.expected, f)
		} else {
			violations = append(violations, f)
		}
	}
	j.run.AddCheck(name, property, judged, violations)
}

// tellExpected adds the findings that were kept separate.
func (j *judgement) tellExpected() {
	var names []string
	for _, f := range j.stage.struck {
		if f.beyond != "" && !slices.Contains(names, f.fault.name) {
			names = append(names, f.fault.name)
		}
	}
	if len(names) == 0 {
		return
	}
	j.run.AddCheck("beyond the guarantees",
		fmt.Sprintf("What happened under faults that the store promises nothing about: %q.", names),
		len(names), j.expected)
	j.run.Checks[len(j.run.Checks)-1].Calibration = true
}

// when returns the instant of a finding: the beginning of its last hold.
func when(f check.Finding) history.Instant {
	at := f.Begin
	for _, h := range f.Holds {
		at = max(at, h.Begin)
	}
	return at
}

// isBeyond reports whether the store promises nothing at an instant.
func (s *stage) isBeyond(at history.Instant) bool {
	return slices.ContainsFunc(s.struck, func(f struck) bool {
		return f.beyond != "" && at >= f.Begin && at <= f.End+history.Instant(2*s.takeover)
	})
}

// troubles returns the times while something was broken.
func (s *stage) troubles() []history.Interval {
	all := []history.Interval{{End: s.began}} // not all workers had started yet
	for _, f := range s.struck {
		all = append(all, f.Interval)
	}
	return all
}

// count returns how many of these fit.
func count[T any](all []T, fits func(T) bool) (n int) {
	for _, one := range all {
		if fits(one) {
			n++
		}
	}
	return n
}

// stranded returns the workers that acquired nothing after the faults had ended, though they had enough time. Each of
// their calls may have ended early with a retryable error, so that no wait was long. Without a queue, it counts only if
// no worker acquired anything.
func (s *stage) stranded(waits []history.Wait) []check.Finding {
	if s.settled || s.mended == 0 {
		return nil
	}
	served := map[string]bool{}
	for _, w := range waits {
		if w.Granted && w.End >= s.mended {
			served[w.Process] = true
		}
	}
	if len(served) > 0 && !s.can.Queue {
		return nil
	}
	var found []check.Finding
	for _, slot := range s.slots {
		if name := slot.current().Name; !served[name] {
			found = append(found, check.Finding{
				Rule: "error", Interval: history.Interval{Begin: s.mended, End: s.mended},
				By:   []history.Who{{Process: name}},
				Text: fmt.Sprintf("%s was granted nothing within %v after everything was mended", name, s.bound()),
			})
		}
	}
	return found
}

// wrong returns the errors that must not happen, as findings.
func wrong(total contend.Report) []check.Finding {
	var found []check.Finding
	for _, text := range slices.Sorted(maps.Keys(total.Wrong)) {
		found = append(found, check.Finding{Rule: "error", Text: fmt.Sprintf("%s (%d times)", text, total.Wrong[text])})
	}
	return found
}

package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/lab/history"
)

// maxTextFindings is how many findings of a check the text shows. The JSON and the page have all of them.
const maxTextFindings = 5

// WriteText writes the run for a terminal: the verdict, what each check has judged and found, the faults, and how to
// repeat it. Control characters in names are escaped.
func (r *Run) WriteText(w io.Writer) error {
	t := &textWriter{run: r}
	t.heading()
	for _, c := range r.Checks {
		t.check(c)
	}
	t.faults()
	t.figures()
	_, err := w.Write(t.Bytes())
	return failed(err)
}

// A textWriter collects the text of a run.
type textWriter struct {
	bytes.Buffer
	run *Run
}

// line adds a line after an indentation.
func (t *textWriter) line(indent int, format string, args ...any) {
	t.WriteString(strings.Repeat("  ", indent) + printable.Line(fmt.Sprintf(format, args...)) + "\n")
}

func (t *textWriter) heading() {
	r := t.run
	t.line(0, "%s: %s", r.Title, strings.ToUpper(string(r.Verdict())))
	t.line(0, "%s", r.Conclusion())
	t.line(0, "")
	for _, fact := range r.facts() {
		t.line(1, "%-10s %s", fact.Name, fact.Value)
	}
}

func (t *textWriter) check(c Check) {
	t.line(0, "")
	t.line(0, "%s: %s", c.Name, c.Result())
	t.line(1, "%s", c.Property)
	for i, f := range c.Findings {
		if i == maxTextFindings {
			t.line(1, "and %s", count(len(c.Findings)-i, "other"))
			break
		}
		t.line(1, "at %s, %s: %s", t.run.at(f.Begin), f.label(), f.Text)
		for _, h := range f.Holds {
			t.line(2, "%s", t.run.describe(h))
		}
	}
}

// faults adds how often there was each kind of fault.
func (t *textWriter) faults() {
	if len(t.run.Faults) == 0 {
		return
	}
	t.line(0, "")
	t.line(0, "%s:", count(len(t.run.Faults), "fault"))
	kinds, unproven := map[string]int{}, map[string]int{}
	for _, f := range t.run.Faults {
		kinds[f.Name]++
		if f.Proof == "" {
			unproven[f.Name]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		remark := ""
		if n := unproven[name]; n > 0 {
			remark = fmt.Sprintf(" (%d without proof)", n)
		}
		t.line(1, "%6d  %s%s", kinds[name], name, remark)
	}
}

func (t *textWriter) figures() {
	if len(t.run.Figures) == 0 {
		return
	}
	t.line(0, "")
	for _, f := range t.run.Figures {
		t.line(0, "%s: %s", f.Name, f)
	}
}

// A fact is one of the things that are said about a run as a whole.
type fact struct{ Name, Value string }

// facts returns the facts about the run.
func (r *Run) facts() []fact {
	began := ""
	if !r.Started.IsZero() {
		began = r.Started.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	facts := []fact{
		{"store", r.Store},
		{"began", began},
		{"lasted", length(r.End.Sub(r.Begin))},
		{"seed", strconv.FormatUint(r.Seed, 10)},
		{"workers", strconv.Itoa(len(r.Workers))},
		{"operations", strconv.Itoa(r.Operations)},
		{"faults", strconv.Itoa(len(r.Faults))},
		{"violations", strconv.Itoa(r.Violations())},
		{"repeat", r.Command},
	}
	return slices.DeleteFunc(facts, func(f fact) bool { return f.Value == "" })
}

// Conclusion returns what the verdict means, in one or two sentences.
func (r *Run) Conclusion() string {
	operations, faults := count(r.Operations, "operation"), count(len(r.Faults), "fault")
	switch r.Verdict() {
	case Broken:
		return fmt.Sprintf("The checks found %s in %s under %s. Each one proves that a promise was broken.",
			count(r.Violations(), "violation"), operations, faults)
	case Held:
		return fmt.Sprintf("The checks found no violation in %s under %s. What did not happen in this run is not "+
			"proven.", operations, faults)
	default:
		return "Nothing is proven either way: a check has judged no event, or there was none."
	}
}

// Result returns how much the check has judged and found.
func (c Check) Result() string {
	found := count(len(c.Findings), "violation")
	switch {
	case c.More:
		found = fmt.Sprintf("%d violations or more", len(c.Findings))
	case len(c.Findings) == 0 && c.Judged == 0:
		return "nothing was judged"
	}
	s := fmt.Sprintf("%s in %s", found, count(c.Judged, "event"))
	if c.Calibration {
		s += ", for calibration"
	}
	return s
}

// label names what a finding breaks.
func (f Finding) label() string {
	if f.Resource == "" {
		return f.Rule
	}
	return fmt.Sprintf("%s of %q", f.Rule, f.Resource)
}

// describe tells a hold with its times.
func (r *Run) describe(h history.Hold) string {
	s := fmt.Sprintf("%v, from %s to %s", h, r.at(h.Begin), r.at(h.End))
	if h.Open {
		s += " or later"
	}
	return s
}

// String returns the figure with its unit.
func (f Figure) String() string {
	return strings.TrimSpace(strconv.FormatFloat(f.Value, 'f', -1, 64) + " " + f.Unit)
}

// at tells a moment from the beginning of the run. What was before is told as the beginning.
func (r *Run) at(i history.Instant) string { return length(max(i.Sub(r.Begin), 0)) }

// length writes a duration with as many digits as people read.
func length(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d.Abs() >= unit {
			return d.Round(unit / 1000).String()
		}
	}
	return d.String()
}

// count writes a number with a word.
func count(n int, word string) string {
	if n != 1 {
		word += "s"
	}
	return fmt.Sprintf("%d %s", n, word)
}

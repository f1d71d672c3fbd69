package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/lab/history"
)

// A timeline is what the page and the picture draw of a run. Its times are nanoseconds since the beginning of the run,
// and all of its texts are printable.
type timeline struct {
	End      history.Instant `json:"end"`
	Rows     []row           `json:"rows"`
	Faults   []band          `json:"faults"`   // in order of their beginning
	Findings []place         `json:"findings"` // in the order of the table
	Prefix   string          `json:"prefix"`   // what the names of all resources begin with, to the last slash
}

// A row is a worker.
type row struct {
	Name    string `json:"name"`
	Process string `json:"process"`
	Lanes   int    `json:"lanes"`
	Marks   []mark `json:"marks"` // in order of their beginning
}

// A mark is a span. The names are short, since a page may have many thousands.
type mark struct {
	State    State           `json:"s"`
	Lane     int             `json:"l,omitempty"` // -1: it covers the row
	Begin    history.Instant `json:"b"`
	End      history.Instant `json:"e"`
	Open     bool            `json:"o,omitempty"`
	Resource string          `json:"r,omitempty"`
	Kind     string          `json:"k,omitempty"`
	Token    holdfast.Token  `json:"t,omitzero"`
	Note     string          `json:"n,omitempty"`
}

// A band is a fault.
type band struct {
	Name   string          `json:"name"`
	Target string          `json:"target"`
	Begin  history.Instant `json:"begin"`
	End    history.Instant `json:"end"`
}

// A place is where a finding is in the timeline.
type place struct {
	Begin    history.Instant `json:"begin"`
	End      history.Instant `json:"end"`
	Rows     []int           `json:"rows"`    // those of the holders, or of others that took part
	Overlap  bool            `json:"overlap"` // what is drawn there are the holds, and not all else that happened
	Text     string          `json:"text"`
	Resource string          `json:"resource"`
}

// timeline lays the run out. Findings for calibration are left out.
func (r *Run) timeline() *timeline {
	t := &timeline{End: max(r.End-r.Begin, 1), Rows: []row{}, Faults: []band{}, Findings: []place{}}
	rows := map[history.Who]int{}
	for i, w := range r.Workers {
		rows[w.Who] = i
		t.Rows = append(t.Rows, r.row(w))
	}
	for _, f := range r.Faults {
		t.Faults = append(t.Faults, band{
			printable.Line(f.Name), printable.Line(f.Target), f.Begin - r.Begin, f.End - r.Begin,
		})
	}
	slices.SortStableFunc(t.Faults, func(a, b band) int { return cmp.Compare(a.Begin, b.Begin) })
	for _, f := range r.violations(false) {
		p := place{
			Begin: f.Begin - r.Begin, End: f.End - r.Begin, Rows: []int{}, Overlap: len(f.Holds) > 0,
			Text: printable.Line(f.Text), Resource: printable.Line(f.Resource),
		}
		for _, who := range f.workers() {
			if i, ok := rows[who]; ok && !slices.Contains(p.Rows, i) {
				p.Rows = append(p.Rows, i)
			}
		}
		t.Findings = append(t.Findings, p)
	}
	t.Prefix = commonPrefix(t.resources())
	return t
}

// workers returns all that took part in a finding.
func (f Finding) workers() []history.Who {
	all := slices.Clone(f.Workers)
	for _, h := range f.Holds {
		all = append(all, h.Who)
	}
	return all
}

// A violation is a finding with the name of its check.
type violation struct {
	Check string
	Finding
}

// violations returns the findings of all checks that are for calibration, or of all others, in order of their time.
func (r *Run) violations(calibration bool) []violation {
	var all []violation
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			if c.Calibration == calibration {
				all = append(all, violation{c.Name, f})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b violation) int { return cmp.Compare(a.Begin, b.Begin) })
	return all
}

func (r *Run) row(w *Worker) row {
	out := row{Name: printable.Line(w.Who.String()), Process: printable.Line(w.Process), Marks: []mark{}}
	for _, s := range w.Spans {
		out.Marks = append(out.Marks, mark{
			State: s.State, Begin: s.Begin - r.Begin, End: s.End - r.Begin, Open: s.Open,
			Resource: printable.Line(s.Resource), Kind: s.kind(), Token: s.Token, Note: printable.Line(s.Note),
		})
	}
	out.layOut()
	return out
}

// maxLanes is how many marks of a row may lie one above the other. More are drawn over each other.
const maxLanes = 4

// layOut sorts the marks and gives each a lane, so that those that overlap do not cover each other. What concerns the
// worker as a whole covers its row.
func (r *row) layOut() {
	slices.SortStableFunc(r.Marks, func(a, b mark) int { return cmp.Compare(a.Begin, b.Begin) })
	last := []mark{{End: math.MinInt64}} // the mark of each lane that ends last
	for i := range r.Marks {
		m := &r.Marks[i]
		if m.State != Waiting && m.State != Holding && m.State != Lost {
			m.Lane = -1
			continue
		}
		lane := slices.IndexFunc(last, func(before mark) bool { return before.End <= m.Begin || grants(before, *m) })
		if lane < 0 && len(last) < maxLanes {
			last = append(last, mark{End: math.MinInt64})
		}
		if lane < 0 {
			lane = len(last) - 1
		}
		if m.Lane = lane; m.End >= last[lane].End {
			last[lane] = *m
		}
	}
	r.Lanes = len(last)
}

// grants reports whether a wait has ended with a hold. Its end may be written down late, when the hold has begun.
func grants(wait, hold mark) bool {
	return wait.State == Waiting && hold.State != Waiting && wait.Resource == hold.Resource && wait.Token == hold.Token
}

// kind says what a span holds or waits for.
func (s Span) kind() string {
	if s.Kind == history.Semaphore {
		return fmt.Sprintf("%d of %d units", s.Units, s.Limit)
	}
	return printable.Line(string(s.Kind))
}

// resources returns the names of all that is waited for, held or lost, sorted. What is written to is no lock.
func (t *timeline) resources() []string {
	seen := map[string]bool{}
	for _, r := range t.Rows {
		for _, m := range r.Marks {
			if m.Resource != "" && m.Lane >= 0 {
				seen[m.Resource] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// commonPrefix returns what sorted names begin with, up to the last slash of that. One name has nothing in common.
func commonPrefix(names []string) string {
	if len(names) < 2 {
		return ""
	}
	first, last := names[0], names[len(names)-1]
	n := 0
	for n < min(len(first), len(last)) && first[n] == last[n] {
		n++
	}
	return first[:strings.LastIndex(first[:n], "/")+1]
}

package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

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
	Rows     []int           `json:"rows"` // those of the holders
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
			Begin: f.Begin - r.Begin, End: f.End - r.Begin, Rows: []int{},
			Text: printable.Line(f.Text), Resource: printable.Line(f.Resource),
		}
		for _, h := range f.Holds {
			if i, ok := rows[h.Who]; ok && !slices.Contains(p.Rows, i) {
				p.Rows = append(p.Rows, i)
			}
		}
		t.Findings = append(t.Findings, p)
	}
	return t
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
	free := make([]history.Instant, 1, maxLanes) // from when on each lane is
	for i := range r.Marks {
		m := &r.Marks[i]
		if m.State != Waiting && m.State != Holding && m.State != Lost {
			m.Lane = -1
			continue
		}
		lane := slices.IndexFunc(free, func(from history.Instant) bool { return from <= m.Begin })
		if lane < 0 && len(free) < maxLanes {
			free = append(free, 0)
		}
		if lane < 0 {
			lane = len(free) - 1
		}
		m.Lane, free[lane] = lane, max(free[lane], m.End)
	}
	r.Lanes = len(free)
}

// kind says what a span holds or waits for.
func (s Span) kind() string {
	if s.Kind == history.Semaphore {
		return fmt.Sprintf("%d of %d units", s.Units, s.Limit)
	}
	return printable.Line(string(s.Kind))
}

// resources returns the names of all resources, sorted.
func (t *timeline) resources() []string {
	seen := map[string]bool{}
	for _, r := range t.Rows {
		for _, m := range r.Marks {
			if m.Resource != "" {
				seen[m.Resource] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

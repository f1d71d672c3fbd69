package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/lab/history"
)

// version is that of the JSON document.
const version = 1

// A document is a run in JSON. Its fields are those of the run, whose times are counted from its beginning, and these.
type document struct {
	Report     int     `json:"report"` // the version of the format
	Verdict    Verdict `json:"verdict"`
	Violations int     `json:"violations"`
	*Run
}

// WriteJSON writes the run as one JSON object on one line. Times are nanoseconds since its beginning. The package
// documentation describes the fields. What a terminal would not show is escaped.
func (r *Run) WriteJSON(w io.Writer) error {
	d := document{version, r.Verdict(), r.Violations(), r.since(r.Begin)}
	text, err := json.Marshal(d)
	if err == nil {
		_, err = io.WriteString(w, printable.Escape(string(text))+"\n")
	}
	return failed(err)
}

// failed adds the name of the package to an error, if there is one.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("holdfast: report: %w", err)
}

// ReadJSON reads what WriteJSON has written. The times of the run that it returns are counted from its beginning.
func ReadJSON(from io.Reader) (*Run, error) {
	d := document{Run: &Run{}}
	if err := json.NewDecoder(from).Decode(&d); err != nil {
		return nil, failed(err)
	}
	switch {
	case d.Report != version:
		return nil, fmt.Errorf("holdfast: report: a report in format %d, and this program reads format %d",
			d.Report, version)
	case d.Verdict != d.Run.Verdict() || d.Violations != d.Run.Violations():
		return nil, errors.New("holdfast: report: the verdict does not fit the checks")
	}
	return d.Run, nil
}

// since returns a copy of the run in which all times are counted from an origin. It has empty lists where r has none.
func (r *Run) since(origin history.Instant) *Run {
	c := *r
	c.Interval = shift(r.Interval, origin)
	c.Workers = make([]*Worker, 0, len(r.Workers))
	for _, w := range r.Workers {
		spans := append([]Span{}, w.Spans...)
		for i := range spans {
			spans[i].Interval = shift(spans[i].Interval, origin)
		}
		c.Workers = append(c.Workers, &Worker{w.Who, spans})
	}
	c.Faults = append([]Fault{}, r.Faults...)
	for i := range c.Faults {
		c.Faults[i].Interval = shift(c.Faults[i].Interval, origin)
	}
	c.Checks = append([]Check{}, r.Checks...)
	for i := range c.Checks {
		c.Checks[i].Findings = findingsSince(origin, c.Checks[i].Findings)
	}
	return &c
}

func findingsSince(origin history.Instant, findings []Finding) []Finding {
	findings = append([]Finding{}, findings...)
	for i := range findings {
		f := &findings[i]
		f.Interval = shift(f.Interval, origin)
		f.Holds = append([]history.Hold(nil), f.Holds...)
		for k := range f.Holds {
			h := &f.Holds[k]
			h.Interval = shift(h.Interval, origin)
			h.Until, h.Lost = shiftKnown(h.Until, origin), shiftKnown(h.Lost, origin)
		}
	}
	return findings
}

func shift(v history.Interval, origin history.Instant) history.Interval {
	return history.Interval{Begin: v.Begin - origin, End: v.End - origin}
}

// shiftKnown shifts a moment for which 0 means that it is not known.
func shiftKnown(i, origin history.Instant) history.Instant {
	if i == 0 {
		return 0
	}
	return i - origin
}

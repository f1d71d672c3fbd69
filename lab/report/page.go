package report

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// pageFiles are the parts of the page.
//
//go:embed page
var pageFiles embed.FS

// The parts of the page.
var (
	pageStyle  = pagePart("page.css")
	pageScript = pagePart("view.js", "words.js", "canvas.js", "chart.js", "marks.js", "findings.js", "details.js",
		"input.js")
)

// pagePart returns some files as one.
func pagePart(names ...string) string {
	var all []byte
	for _, name := range names {
		text, err := pageFiles.ReadFile("page/" + name)
		if err != nil {
			panic(err) // it is not in the program
		}
		all = append(all, text...)
	}
	return string(all)
}

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"text": printable.Line,
}).Parse(pagePart("page.html.tmpl")))

// pagePolicy lets the page use its own script and style and nothing else: it can send no request.
var pagePolicy = fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; "+
	"base-uri 'none'; form-action 'none'", digest(pageScript), digest(pageStyle))

// digest names a text in a content security policy.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// WriteHTML writes the run as one page that needs nothing else and sends no request: the timeline of each worker, with
// faults and violations, and all tables. Names from outside are text on it, whatever they contain.
func (r *Run) WriteHTML(w io.Writer) error {
	return failed(pageTemplate.Execute(w, r.page()))
}

// A page is what the template shows: the run, of which some lists have another form here.
type page struct {
	*Run
	Policy     string
	Style      template.CSS
	Script     template.JS
	Facts      []fact
	Violations findingTable
	Calibrated findingTable
	Checks     []pageCheck
	Faults     []pageFault
	Workers    []pageWorker
	Alt        string // the timeline in one sentence
	Resources  []string
	Timeline   *timeline
}

type pageFinding struct {
	violation
	Number    int
	When, For string
	Holds     []string
}

// A findingTable is a table of findings. Link says whether they are in the timeline too.
type findingTable struct {
	Label string
	Link  bool
	List  []pageFinding
}

// A pageCheck is a check with its result in a word.
type pageCheck struct {
	Check
	Class string
}

// result returns what a check says alone.
func (c Check) result() string {
	if c.Calibration {
		return "calibration"
	}
	return string((&Run{Checks: []Check{c}}).Verdict())
}

type pageFault struct{ When, For, Name, Target, Proof string }

// A pageWorker is a worker whose spans are counted.
type pageWorker struct{ *Worker }

func (r *Run) page() *page {
	p := &page{
		Run: r, Policy: pagePolicy, Style: template.CSS(pageStyle), Script: template.JS(pageScript), Facts: r.facts(),
		Violations: r.table("Violations", true, r.violations(false)),
		Calibrated: r.table("Calibration", false, r.violations(true)),
		Timeline:   r.timeline(),
		Alt: fmt.Sprintf("Timeline of %s over %s with %s and %s. The tables below say the same.",
			count(len(r.Workers), "worker"), length(r.End.Sub(r.Begin)), count(len(r.Faults), "fault"),
			count(r.Violations(), "violation")),
	}
	for _, c := range r.Checks {
		p.Checks = append(p.Checks, pageCheck{c, c.result()})
	}
	for _, f := range r.Faults {
		p.Faults = append(p.Faults, pageFault{r.at(f.Begin), length(f.End.Sub(f.Begin)), f.Name, f.Target, f.Proof})
	}
	for _, w := range r.Workers {
		p.Workers = append(p.Workers, pageWorker{w})
	}
	p.Resources = p.Timeline.resources()
	return p
}

// table lists findings, numbered from 1 as in the timeline.
func (r *Run) table(label string, link bool, found []violation) findingTable {
	t := findingTable{Label: label, Link: link}
	for i, v := range found {
		f := pageFinding{violation: v, Number: i + 1, When: r.at(v.Begin), For: length(v.End.Sub(v.Begin))}
		for _, h := range v.Holds {
			f.Holds = append(f.Holds, r.describe(h))
		}
		t.List = append(t.List, f)
	}
	return t
}

// Count counts the spans of a state.
func (w pageWorker) Count(state State) (n int) {
	for _, s := range w.Spans {
		if s.State == state {
			n++
		}
	}
	return n
}

// Held returns how long the worker held locks.
func (w pageWorker) Held() string {
	var held time.Duration
	for _, s := range w.Spans {
		if s.State == Holding {
			held += s.End.Sub(s.Begin)
		}
	}
	return length(held)
}

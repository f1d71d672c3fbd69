package broken

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
)

// textWidth is how wide a line of text may be.
const textWidth = 96

// WriteText writes what should have held, what happened and when, which check found it, and what prevents it in
// Holdfast.
func (o *Outcome) WriteText(w io.Writer) error {
	t := &text{}
	r := o.Rung
	t.line("", fmt.Sprintf("%d. %s (seed %d)", r.Number, r.Name, o.Seed))
	t.line("   ", strings.ToUpper(r.What[:1])+r.What[1:]+".")
	t.line("   ", "Seen in: "+r.Seen+".")
	t.line("   ", "What should hold: "+r.Promise+".")
	t.line("   ", "The schedule: "+r.Story)
	t.line("", "")
	t.line("", "With the broken lock:")
	t.performance(o.Broken)
	t.line("", "")
	t.line("", "The same schedule with Holdfast ("+r.Store+"):")
	t.performance(o.Holdfast)
	t.line("", "")
	t.line("", "What prevents it here: "+r.Prevents)
	switch {
	case !o.Caught():
		t.line("", "NOT AS IT SHOULD BE: the broken lock was not caught.")
	case !o.Passed():
		t.line("", "NOT AS IT SHOULD BE: Holdfast's lock did not pass.")
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// A text collects lines.
type text struct{ strings.Builder }

// performance writes the steps of a play, and the results of the checks.
func (t *text) performance(p *Performance) {
	for _, e := range p.Events {
		what := e.Text
		if e.Who != "" {
			what = e.Who + " " + what
		}
		t.line(fmt.Sprintf("%7d ms  ", e.At.Sub(p.Begin).Milliseconds()), what)
	}
	for _, c := range p.Checks {
		if len(c.Findings) > 0 {
			t.line("   => ", fmt.Sprintf("the check of %s saw it: %s.", c.Name, sentence(c.Findings[0])))
		}
	}
	if len(p.Findings()) == 0 {
		t.line("   => ", "no check saw anything.")
	}
}

// line writes a line, wrapped where it is too wide, and indented as far as the first word.
func (t *text) line(indent, words string) {
	t.WriteString(indent)
	column := len([]rune(indent))
	for i, word := range strings.Fields(words) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case column+1+n > textWidth:
			column = len([]rune(indent))
			t.WriteString("\n" + strings.Repeat(" ", column))
		default:
			t.WriteString(" ")
			column++
		}
		t.WriteString(word)
		column += n
	}
	t.WriteString("\n")
}

// lengths matches times in a finding, which are shown in milliseconds.
var lengths = regexp.MustCompile(`\b[0-9]+\.[0-9]+(m|µ)?s\b`)

// sentence returns the text of a finding without its rule and its resource, with the names of the holders.
func sentence(f check.Finding) string {
	first, _, _ := strings.Cut(f.Text, "\n")
	first = strings.TrimPrefix(first, fmt.Sprintf("%s: resource %q: ", f.Rule, f.Resource))
	first = lengths.ReplaceAllStringFunc(strings.TrimSuffix(first, ":"), func(text string) string {
		d, err := time.ParseDuration(text)
		if err != nil {
			return text
		}
		return d.Round(time.Millisecond).String()
	})
	if len(f.Holds) == 2 {
		first += fmt.Sprintf(" (%v and %v)", f.Holds[0].Who, f.Holds[1].Who)
	}
	return first
}

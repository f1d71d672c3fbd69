package broken

import "github.com/holdfast-go/holdfast/lab/check"

// An OutcomeJSON is an outcome in JSON. Times are milliseconds since the beginning of the play.
type OutcomeJSON struct {
	Number   int             `json:"number"`
	Name     string          `json:"name"`
	What     string          `json:"what"`
	Promise  string          `json:"promise"`
	Seed     uint64          `json:"seed"`
	Rule     check.Rule      `json:"rule"`
	Caught   bool            `json:"caught"`
	Passed   bool            `json:"passed"`
	Prevents string          `json:"prevents"`
	Store    string          `json:"store"`
	Broken   PerformanceJSON `json:"broken"`
	Holdfast PerformanceJSON `json:"holdfast"`
}

// A PerformanceJSON is a performance in JSON.
type PerformanceJSON struct {
	Events   []EventJSON   `json:"events"`
	Findings []FindingJSON `json:"findings"`
}

// An EventJSON is a step of a schedule.
type EventJSON struct {
	At   int64  `json:"at_ms"`
	Who  string `json:"who,omitempty"` // the player; empty: what the schedule does
	Text string `json:"text"`
}

// A FindingJSON is a finding of a check.
type FindingJSON struct {
	Check string     `json:"check"`
	Rule  check.Rule `json:"rule"`
	Text  string     `json:"text"`
}

// JSON returns the outcome in JSON.
func (o *Outcome) JSON() OutcomeJSON {
	r := o.Rung
	return OutcomeJSON{
		Number: r.Number, Name: r.Name, What: r.What, Promise: r.Promise, Seed: o.Seed, Rule: r.Rule,
		Caught: o.Caught(), Passed: o.Passed(), Prevents: r.Prevents, Store: r.Store,
		Broken: o.Broken.json(), Holdfast: o.Holdfast.json(),
	}
}

func (p *Performance) json() PerformanceJSON {
	j := PerformanceJSON{Events: []EventJSON{}, Findings: []FindingJSON{}}
	for _, e := range p.Events {
		j.Events = append(j.Events, EventJSON{e.At.Sub(p.Begin).Milliseconds(), e.Who, e.Text})
	}
	for _, c := range p.Checks {
		for _, f := range c.Findings {
			j.Findings = append(j.Findings, FindingJSON{c.Name, f.Rule, sentence(f)})
		}
	}
	return j
}

package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// A plan is what to measure.
type plan struct {
	command     string
	quick       bool
	rounds      int
	workloads   []*workload
	contestants []*contestant
	servers     serverSettings
}

// newPlan chooses by regular expressions on names, from the contestants on these kinds of site.
func newPlan(quick bool, rounds int, cases, names *regexp.Regexp, on []*siteKind) (*plan, error) {
	p := &plan{quick: quick, rounds: rounds}
	for _, w := range workloads(quick) {
		if cases.MatchString(w.Name) {
			p.workloads = append(p.workloads, w)
		}
	}
	for i := range contestants {
		if c := &contestants[i]; names.MatchString(c.name) && slices.Contains(on, c.on) {
			p.contestants = append(p.contestants, c)
		}
	}
	if len(p.steps()) == 0 {
		return nil, errors.New("no case with a contestant is chosen: see --cases, --contestants and --store")
	}
	return p, nil
}

// A step is one measurement of a plan.
type step struct {
	round int
	*workload
	*contestant
}

// steps are all measurements, in order.
func (p *plan) steps() (all []step) {
	for round := range p.rounds {
		for _, w := range p.workloads {
			if w.maxRounds > 0 && round >= w.maxRounds {
				continue
			}
			for i := range p.contestants {
				// Each round begins with another, so that nobody always comes after the same.
				if c := p.contestants[(i+round)%len(p.contestants)]; c.takesPart(w) {
					all = append(all, step{round, w, c})
				}
			}
		}
	}
	return all
}

// leaveOut removes the contestants whose needs this machine does not meet.
func (p *plan) leaveOut(say sayFunc) {
	p.contestants = slices.DeleteFunc(p.contestants, func(c *contestant) bool {
		if c.needs == nil {
			return false
		}
		err := c.needs()
		if err != nil {
			say("%s is left out: %v\n", c.name, err)
		}
		return err != nil
	})
}

// takes is about how long the whole takes.
func (p *plan) takes() (sum time.Duration) {
	for _, s := range p.steps() {
		sum += s.takes()
	}
	return sum
}

// A row is what was measured of a contestant under a workload. Where a round is nil, it failed.
type row struct {
	contestant *contestant
	rounds     []metrics
	failures   []string
}

// A result is what was measured under a workload.
type result struct {
	workload *workload
	rows     []*row
}

// results are those of a whole run.
type results struct {
	plan  *plan
	sites map[*siteKind]string // what they were
	cases []*result
}

// newResults has an empty row for each measurement of the plan, in the order of the table.
func newResults(p *plan) *results {
	r := &results{plan: p, sites: map[*siteKind]string{}}
	for _, w := range p.workloads {
		result := &result{workload: w}
		for _, c := range p.contestants {
			if c.takesPart(w) {
				result.rows = append(result.rows, &row{contestant: c})
			}
		}
		r.cases = append(r.cases, result)
	}
	return r
}

// add adds what a measurement came to.
func (r *results) add(w *workload, c *contestant, m metrics, failure string) {
	for _, result := range r.cases {
		for _, row := range result.rows {
			if result.workload != w || row.contestant != c {
				continue
			}
			row.rounds = append(row.rounds, m)
			if failure != "" {
				row.failures = append(row.failures, failure)
			}
		}
	}
}

// A sayFunc is told what happens, for whoever waits.
type sayFunc func(format string, args ...any)

// run measures everything. When ctx is done it stops: what was measured by then is in the results. A measurement that
// fails is a failure of its contestant, and the run goes on.
func (p *plan) run(ctx context.Context, say sayFunc) (*results, error) {
	r := newResults(p)
	sites := map[*siteKind]site{}
	defer func() {
		for kind, s := range sites {
			r.sites[kind] = s.About() // it knows more now than when it was started
			if err := s.Close(); err != nil {
				say("bench: clearing up: %v\n", err)
			}
		}
	}()
	for _, c := range p.contestants {
		if sites[c.on] != nil {
			continue
		}
		s, err := c.on.start(ctx, p.servers)
		if err != nil {
			return nil, err
		}
		sites[c.on] = s
	}
	for _, s := range p.steps() {
		say("round %d of %d  %-10s  %-24s", s.round+1, p.rounds, s.Name, s.name)
		m, firstError, err := measureOnce(ctx, sites[s.on], s.contestant, s.workload)
		if ctx.Err() != nil {
			say("\n")
			break
		}
		if err != nil {
			firstError = err.Error()
		}
		r.add(s.workload, s.contestant, m, firstError)
		say("%s\n", oneLine(s.workload, m, firstError))
	}
	return r, ctx.Err()
}

// oneLine is a measurement in a few words, for whoever waits.
func oneLine(w *workload, m metrics, firstError string) string {
	if firstError != "" {
		return "  FAILED: " + firstError
	}
	text := ""
	for _, name := range w.columns[:3] {
		text += fmt.Sprintf("  %s %s", format(m, name, meanings[name].decimals), meanings[name].title)
	}
	if m.faults() > 0 {
		text += fmt.Sprintf("  FAULTS: %.0f", m.faults())
	}
	return text
}

// ok says whether every measurement could be made, and Holdfast did nothing that must not be.
func (r *results) ok() bool {
	for _, result := range r.cases {
		for _, row := range result.rows {
			for _, m := range row.rounds {
				if m == nil || row.contestant.role == ours && m.faults() > 0 {
					return false
				}
			}
		}
	}
	return true
}

package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
)

// maxFindings is how many findings a check gives. A lock that does not lock has one for every pair of holds.
const maxFindings = 100

// A Rule is what a finding breaks.
type Rule string

// The rules.
const (
	Exclusion Rule = "exclusion"    // an exclusive hold is alone, and a lock and a semaphore are not held together
	Limit     Rule = "limit"        // the units held of a semaphore never exceed its limit
	Order     Rule = "token order"  // tokens rise with the holds, wherever one of two is exclusive
	Unique    Rule = "token unique" // no two claims have the same ticket
	Mark      Rule = "token mark"   // a token is marked as shared if its hold is

	EarlyGrant   Rule = "early grant"  // nothing is granted before the time that an earlier holder was promised
	Overtaken    Rule = "overtaken"    // a claim that came first is served first
	LongWait     Rule = "long wait"    // nobody waits for longer than a bound while nothing is broken
	LostUpdate   Rule = "lost update"  // no acknowledged update is overwritten by one that has not seen it
	Linearizable Rule = "linearizable" // the operations on a register can be put in an order that explains them all
	Undecided    Rule = "undecided"    // whether a register is linearizable could be decided
	LeftBehind   Rule = "left behind"  // nobody stands in a line after all have ended
)

// A Finding is a rule that was broken.
type Finding struct {
	Rule     Rule
	Resource string
	Holds    []history.Hold // those that break it together; some rules are about other things
	Text     string         // says it for people

	// Interval is when it happened, where there are no holds that say so; zero: after the end of all.
	history.Interval
	// By is who took part, where there are no holds that say so.
	By []history.Who
}

// String is the finding's text.
func (f Finding) String() string { return f.Text }

// A search gathers findings about one resource.
type search struct {
	resource string
	origin   history.Instant // times are told from here
	found    []Finding
}

// byResource runs a check on the holds of each resource, in order of their beginning.
func byResource(holds []history.Hold, check func(*search, []history.Hold)) []Finding {
	sorted := slices.Clone(holds)
	history.Sort(sorted)
	names, groups := grouped(sorted, func(h history.Hold) string { return h.Resource })
	return searchEach(names, origin(sorted), func(s *search) { check(s, groups[s.resource]) })
}

// origin is when the first of some sorted holds begins.
func origin(sorted []history.Hold) history.Instant {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[0].Begin
}

// grouped puts what has the same name together. The names are in order of their first item, so that findings always come
// in the same order.
func grouped[T any](items []T, name func(T) string) (names []string, groups map[string][]T) {
	groups = map[string][]T{}
	for _, item := range items {
		n := name(item)
		if groups[n] == nil {
			names = append(names, n)
		}
		groups[n] = append(groups[n], item)
	}
	return names, groups
}

// searchEach searches each of the named resources, until there are enough findings.
func searchEach(names []string, origin history.Instant, look func(*search)) []Finding {
	var found []Finding
	for _, name := range names {
		s := &search{resource: name, origin: origin}
		look(s)
		if found = append(found, s.found...); len(found) >= maxFindings {
			return found[:maxFindings]
		}
	}
	return found
}

func (s *search) full() bool { return len(s.found) >= maxFindings }

// report adds a finding. The holds are told after what happened.
func (s *search) report(rule Rule, holds []history.Hold, format string, args ...any) {
	text := fmt.Sprintf("%s: resource %q: ", rule, s.resource) + fmt.Sprintf(format, args...)
	for _, h := range holds {
		text += fmt.Sprintf("\n  %v, from %v to %v", h, s.since(h.Begin), s.since(h.End))
		if h.Open {
			text += " or later"
		}
	}
	s.found = append(s.found, Finding{Rule: rule, Resource: s.resource, Holds: slices.Clone(holds), Text: text})
}

// note adds a finding that is not about holds.
func (s *search) note(rule Rule, v history.Interval, by []history.Who, format string, args ...any) {
	text := fmt.Sprintf("%s: resource %q: ", rule, s.resource) + fmt.Sprintf(format, args...)
	s.found = append(s.found, Finding{Rule: rule, Resource: s.resource, Text: text, Interval: v, By: by})
}

// since tells a moment from the beginning of the history.
func (s *search) since(i history.Instant) time.Duration { return rounded(i.Sub(s.origin)) }

// rounded is a duration without digits that nobody reads.
func rounded(d time.Duration) time.Duration { return d.Round(time.Microsecond) }

// oneClaim says whether two holds are leases of one claim: whoever locks again what it holds gets the same token.
func oneClaim(a, b history.Hold) bool { return a.Who == b.Who && a.Token == b.Token && a.Token != 0 }

package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
)

// maxFindings is how many findings a check returns at most. A lock that excludes nothing has one for every pair of
// holds.
const maxFindings = 100

// A Rule names what a finding violates.
type Rule string

// The rules.
const (
	Exclusion Rule = "exclusion"    // an exclusive hold is alone, and a lock and a semaphore are not held together
	Limit     Rule = "limit"        // the units held of a semaphore never exceed its limit
	Order     Rule = "token order"  // tokens rise with the holds, wherever one of two is exclusive
	Unique    Rule = "token unique" // no two claims have the same ticket
	Mark      Rule = "token mark"   // a token is marked as shared if its hold is

	EarlyGrant   Rule = "early grant"  // nothing is granted before an earlier holder's Until
	Overtaken    Rule = "overtaken"    // a claim that arrived first is granted first
	LongWait     Rule = "long wait"    // no wait lasts longer than a bound while nothing is broken
	LostUpdate   Rule = "lost update"  // no acknowledged update is overwritten by one that has not seen it
	Linearizable Rule = "linearizable" // the operations on a register can be put in an order that explains them all
	Undecided    Rule = "undecided"    // it was decided whether a register is linearizable
	LeftBehind   Rule = "left behind"  // no claim is in a queue after all processes have ended
)

// A Finding is a violation of a rule.
type Finding struct {
	Rule     Rule
	Resource string
	Holds    []history.Hold // that violate it together; empty for rules about other things
	Text     string         // describes it

	// Interval is when it happened, if there are no Holds; zero: after the end of the run.
	history.Interval
	// By has the participants, if there are no Holds.
	By []history.Who
}

// String returns the text of the finding.
func (f Finding) String() string { return f.Text }

// A search collects findings about one resource.
type search struct {
	resource string
	origin   history.Instant // times are reported relative to it
	found    []Finding
}

// byResource runs a check on the holds of each resource, in order of their beginning.
func byResource(holds []history.Hold, check func(*search, []history.Hold)) []Finding {
	sorted := slices.Clone(holds)
	history.Sort(sorted)
	names, groups := grouped(sorted, func(h history.Hold) string { return h.Resource })
	return searchEach(names, origin(sorted), func(s *search) { check(s, groups[s.resource]) })
}

// origin returns when the first of some sorted holds begins.
func origin(sorted []history.Hold) history.Instant {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[0].Begin
}

// sortedBy returns items in order of an instant that each has.
func sortedBy[T any](items []T, at func(T) history.Instant) []T {
	return slices.SortedStableFunc(slices.Values(items), func(a, b T) int { return cmp.Compare(at(a), at(b)) })
}

// grouped groups items by name. The names are in order of their first item, so that findings always have the same
// order.
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

// report adds a finding. Its text ends with the holds.
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

// since returns the time from the beginning of the history.
func (s *search) since(i history.Instant) time.Duration { return rounded(i.Sub(s.origin)) }

// rounded returns a duration rounded for people.
func rounded(d time.Duration) time.Duration { return d.Round(time.Microsecond) }

// oneClaim reports whether two holds are leases of one claim: a holder that locks again gets the same token.
func oneClaim(a, b history.Hold) bool { return a.Who == b.Who && a.Token == b.Token && a.Token != 0 }

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
)

// A Finding is a rule that was broken.
type Finding struct {
	Rule     Rule
	Resource string
	Holds    []history.Hold // those that break it together
	Text     string         // says it for people
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
	var names []string // in order of the first hold, so that findings always come in the same order
	groups := map[string][]history.Hold{}
	for _, h := range sorted {
		if groups[h.Resource] == nil {
			names = append(names, h.Resource)
		}
		groups[h.Resource] = append(groups[h.Resource], h)
	}
	var found []Finding
	for _, name := range names {
		s := &search{resource: name, origin: sorted[0].Begin}
		check(s, groups[name])
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
	s.found = append(s.found, Finding{rule, s.resource, slices.Clone(holds), text})
}

// since tells a moment from the beginning of the history.
func (s *search) since(i history.Instant) time.Duration { return i.Sub(s.origin) }

// oneClaim says whether two holds are leases of one claim: whoever locks again what it holds gets the same token.
func oneClaim(a, b history.Hold) bool { return a.Who == b.Who && a.Token == b.Token && a.Token != 0 }

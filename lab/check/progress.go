package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
)

// Progress is the rule that an attempt to acquire succeeds in time.
const Progress Rule = "progress"

// An Attempt is a client's wait for a lock: from its request until the grant, or until the client gave up.
type Attempt struct {
	history.Who
	Resource string
	history.Interval
	Granted bool
}

// Stuck finds attempts that lasted longer than bound, whether they were granted in the end or not. It is a check of
// progress: the caller passes only attempts during which every holder was either dead or done within less than bound,
// and in which the waiting client could reach the store. It reports the first 100 findings.
func Stuck(attempts []Attempt, bound time.Duration) []Finding {
	sorted := slices.SortedStableFunc(slices.Values(attempts), func(a, b Attempt) int { return cmp.Compare(a.Begin, b.Begin) })
	var found []Finding
	for _, a := range sorted {
		waited := a.End.Sub(a.Begin)
		if waited <= bound {
			continue
		}
		s := &search{resource: a.Resource, origin: sorted[0].Begin}
		outcome := "and gave up"
		if a.Granted {
			outcome = "and got the lock only then"
		}
		s.report(Progress, nil, "%v waited for %v %s; it should have got the lock within %v",
			a.Who, waited.Round(time.Millisecond), outcome, bound)
		if found = append(found, s.found...); len(found) == maxFindings {
			break
		}
	}
	return found
}

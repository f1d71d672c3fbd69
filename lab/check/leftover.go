package check

import (
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/history"
)

// Leftover finds claims that are still in a queue after every process has ended, and after the time within which the
// store removes the claims of killed clients. The queues are what the store returns then.
func Leftover(lines []holdfast.Queue) []Finding {
	names, groups := grouped(lines, func(l holdfast.Queue) string { return l.Name })
	return searchEach(names, 0, func(s *search) {
		for _, line := range groups[s.resource] {
			for _, p := range line.Entries {
				s.note(LeftBehind, history.Interval{}, nil,
					"a claim with token %v of %v is still there, for another %v",
					p.Token, p.Owner, p.Left.Round(time.Millisecond))
			}
		}
	})
}

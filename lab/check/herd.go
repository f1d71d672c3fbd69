package check

import "github.com/holdfast-go/holdfast/lab/history"

// Herd is the rule that a release wakes the waiters that get the lock by it, and no others.
const Herd Rule = "herd"

// A Wakeup is what a release set off: how many waiting clients the server told of it, and how many of them it let in.
type Wakeup struct {
	Resource       string
	At             history.Instant
	Woken, Granted int
}

// Herds finds releases that woke more clients than they let in. A herd is not unsafe. It costs the server a message and
// a request for each client that was woken in vain, at each release.
func Herds(wakeups []Wakeup) []Finding {
	names, groups := grouped(wakeups, func(w Wakeup) string { return w.Resource })
	return searchEach(names, 0, func(s *search) {
		for _, w := range groups[s.resource] {
			if w.Woken > w.Granted && !s.full() {
				s.note(Herd, history.Interval{Begin: w.At, End: w.At}, nil, "a release woke %d clients, and let %d in",
					w.Woken, w.Granted)
			}
		}
	})
}

package check

import "github.com/holdfast-go/holdfast/lab/history"

// Herd is the rule that a release wakes the waiters that it grants, and at most one more, which is next.
const Herd Rule = "herd"

// A Wakeup is the effect of a release: how many waiting clients the server notified, and how many claims it granted.
type Wakeup struct {
	Resource       string
	At             history.Instant
	Woken, Granted int
}

// Herds finds releases that woke more clients than they granted claims, and one more: the next waiter may be notified
// to prepare. A herd is not unsafe. It costs the server a message and a request for each client that was woken in vain,
// at each release.
func Herds(wakeups []Wakeup) []Finding {
	names, groups := grouped(wakeups, func(w Wakeup) string { return w.Resource })
	return searchEach(names, 0, func(s *search) {
		for _, w := range groups[s.resource] {
			if w.Woken > w.Granted+1 && !s.full() {
				s.note(Herd, history.Interval{Begin: w.At, End: w.At}, nil, "a release woke %d clients, and granted %d",
					w.Woken, w.Granted)
			}
		}
	})
}

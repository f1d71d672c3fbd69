package check

import "github.com/holdfast-go/holdfast/lab/history"

// Herd is the rule that a release wakes those who get the lock by it, and no others.
const Herd Rule = "herd"

// A Wakeup is what a release set off: how many waiting clients the server told of it, and how many of them it let in.
type Wakeup struct {
	Resource       string
	At             history.Instant
	Woken, Granted int
}

// Herds finds releases that woke more clients than they let in. A herd is not unsafe: it costs the server a message and
// a request for each client woken in vain, at each release. It reports the first 100 findings.
func Herds(wakeups []Wakeup) []Finding {
	var found []Finding
	for _, w := range wakeups {
		if w.Woken <= w.Granted {
			continue
		}
		s := &search{resource: w.Resource}
		s.report(Herd, nil, "a release woke %d clients, and let %d in", w.Woken, w.Granted)
		if found = append(found, s.found...); len(found) == maxFindings {
			break
		}
	}
	return found
}

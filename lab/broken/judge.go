package broken

import (
	"fmt"

	"github.com/holdfast-go/holdfast/lab/check"
)

// judge runs the checks that have something to judge in this play.
func (s *stage) judge() {
	h := s.show.History
	add := func(name, property string, judged int, found []check.Finding) {
		s.show.Checks = append(s.show.Checks, Check{name, property, judged, found})
	}
	if s.rung.broken != nil {
		add("mutual exclusion", "Holds that exclude each other are never believed at once.",
			len(h.Holds), check.Overlap(h.Holds))
	}
	if s.rung.broken != nil && s.holdfast { // broken locks have no tokens
		add("fencing tokens", "Every exclusive hold has a greater token than all holds before it.",
			len(h.Holds), check.Tokens(h.Holds))
	}
	if s.bound > 0 {
		add("bounded waiting", fmt.Sprintf("No wait lasts for longer than %v.", s.bound),
			len(h.Waits), check.Waiting(h.Waits, nil, s.bound))
	}
	if s.rung.register != nil {
		add("register",
			"The updates of what the lock protects are linearizable, and none that was acknowledged is lost.",
			len(h.Operations), check.Register(h.Operations))
	}
	if len(s.show.Wakeups) > 0 {
		add("herd", "A release wakes the waiters that get the lock by it, and at most one more, which is next.",
			len(s.show.Wakeups), check.Herds(s.show.Wakeups))
	}
}

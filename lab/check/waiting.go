package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
)

// Waiting finds waits that lasted longer than bound while nothing was broken, and were not granted within it. Troubles
// are the times while something was broken. A wait is checked in each interval between them separately, from its own
// beginning or the end of the trouble, whichever is later. A wait that ended without the lock, or whose end is unknown,
// counts for as long as it is known to have lasted.
func Waiting(waits []history.Wait, troubles []history.Interval, bound time.Duration) []Finding {
	return longWaits(waits, bound, func([]history.Wait) []history.Interval { return troubles },
		"%s waited for %v while nothing was broken, and the bound is %v")
}

// Progress finds locks that were not granted to any waiter for longer than bound, while there were waiters and nothing
// was broken. That is what a lock without a queue can promise: that one of the waiters acquires it, but not which.
func Progress(waits []history.Wait, troubles []history.Interval, bound time.Duration) []Finding {
	return longWaits(waits, bound, func(same []history.Wait) []history.Interval {
		pauses := slices.Clone(troubles)
		for _, w := range same {
			if w.Granted { // from then on it is the turn of another
				pauses = append(pauses, history.Interval{Begin: w.End, End: w.End})
			}
		}
		return pauses
	}, "%s waited for %v while nothing was broken and no waiter was granted, and the bound is %v")
}

// longWaits finds waits that lasted longer than bound between the pauses of their resource.
func longWaits(
	waits []history.Wait, bound time.Duration, pauses func(ofOne []history.Wait) []history.Interval, format string,
) []Finding {
	sorted := sortedBy(waits, func(w history.Wait) history.Instant { return w.Begin })
	names, groups := grouped(sorted, func(w history.Wait) string { return w.Resource })
	return searchEach(names, 0, func(s *search) {
		between := merged(pauses(groups[s.resource]))
		for _, w := range groups[s.resource] {
			if calm, lasted := longestCalm(w.Interval, between); lasted > bound && !s.full() {
				s.note(LongWait, calm, []history.Who{w.Who}, format, w.Who, lasted.Round(time.Millisecond), bound)
			}
		}
	})
}

// merged sorts intervals, and merges those that overlap or touch.
func merged(intervals []history.Interval) []history.Interval {
	var all []history.Interval
	for _, v := range sortedBy(intervals, func(v history.Interval) history.Instant { return v.Begin }) {
		if n := len(all); n > 0 && v.Begin <= all[n-1].End {
			all[n-1].End = max(all[n-1].End, v.End)
		} else {
			all = append(all, v)
		}
	}
	return all
}

// longestCalm returns the longest part of an interval outside troubles, which are sorted and disjoint.
func longestCalm(v history.Interval, troubles []history.Interval) (calm history.Interval, lasted time.Duration) {
	from := v.Begin
	note := func(to history.Instant) {
		if to.Sub(from) > lasted {
			calm, lasted = history.Interval{Begin: from, End: to}, to.Sub(from)
		}
	}
	first, _ := slices.BinarySearchFunc(troubles, v.Begin, func(t history.Interval, at history.Instant) int {
		return cmp.Compare(t.End, at)
	})
	for _, t := range troubles[first:] {
		if t.Begin >= v.End {
			break
		}
		note(t.Begin)
		from = max(from, t.End)
	}
	note(v.End)
	return calm, lasted
}

package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
)

// Waiting finds waits that lasted for longer than bound while nothing was broken, and were not granted within it. Troubles
// are the times while something was broken; a wait is judged in each stretch between them by itself, from the later
// of its own beginning and the healing. A wait that ended without the lock, and one whose end is not known, counts for
// as long as it is known to have lasted.
func Waiting(waits []history.Wait, troubles []history.Interval, bound time.Duration) []Finding {
	return longWaits(waits, bound, func([]history.Wait) []history.Interval { return troubles },
		"%s waited for %v while nothing was broken, and the bound is %v")
}

// Progress finds locks that nobody was granted for longer than bound, while somebody waited and nothing was broken. That
// is what a lock without a line can promise: that of those who wait one gets in, and not which.
func Progress(waits []history.Wait, troubles []history.Interval, bound time.Duration) []Finding {
	return longWaits(waits, bound, func(same []history.Wait) []history.Interval {
		pauses := slices.Clone(troubles)
		for _, w := range same {
			if w.Granted { // from then on it is another's turn
				pauses = append(pauses, history.Interval{Begin: w.End, End: w.End})
			}
		}
		return pauses
	}, "%s waited for %v while nothing was broken and nobody was granted anything, and the bound is %v")
}

// longWaits finds waits that lasted for longer than bound between the pauses of their resource.
func longWaits(
	waits []history.Wait, bound time.Duration, pauses func(ofOne []history.Wait) []history.Interval, format string,
) []Finding {
	sorted := slices.SortedStableFunc(slices.Values(waits), func(a, b history.Wait) int { return cmp.Compare(a.Begin, b.Begin) })
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

// merged puts intervals in order, and those that overlap or touch together.
func merged(intervals []history.Interval) []history.Interval {
	sorted := slices.SortedFunc(slices.Values(intervals), func(a, b history.Interval) int { return cmp.Compare(a.Begin, b.Begin) })
	var all []history.Interval
	for _, v := range sorted {
		if n := len(all); n > 0 && v.Begin <= all[n-1].End {
			all[n-1].End = max(all[n-1].End, v.End)
		} else {
			all = append(all, v)
		}
	}
	return all
}

// longestCalm is the longest part of an interval that lies between troubles, which are in order and apart.
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

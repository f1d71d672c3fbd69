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
	sorted := slices.SortedStableFunc(slices.Values(waits), func(a, b history.Wait) int { return cmp.Compare(a.Begin, b.Begin) })
	troubles = merged(troubles)
	names, groups := grouped(sorted, func(w history.Wait) string { return w.Resource })
	return searchEach(names, 0, func(s *search) {
		for _, w := range groups[s.resource] {
			if calm, lasted := longestCalm(w.Interval, troubles); lasted > bound && !s.full() {
				s.note(LongWait, calm, []history.Who{w.Who}, "%s waited for %v while nothing was broken, and the bound is %v",
					w.Who, lasted.Round(time.Millisecond), bound)
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

// longestCalm is the longest part of an interval that lies between troubles, which are in order.
func longestCalm(v history.Interval, troubles []history.Interval) (calm history.Interval, lasted time.Duration) {
	from := v.Begin
	for _, t := range append(slices.Clone(troubles), history.Interval{Begin: v.End, End: v.End}) {
		if to := min(t.Begin, v.End); to.Sub(from) > lasted {
			calm, lasted = history.Interval{Begin: from, End: to}, to.Sub(from)
		}
		from = max(from, t.End)
	}
	return calm, lasted
}

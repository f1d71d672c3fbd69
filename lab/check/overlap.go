package check

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
)

// Overlap finds holds that were believed at once and must not have been: an exclusive one and any other, more units of
// a semaphore than its limit, holds of one semaphore that do not agree on its limit, a lock and a semaphore. Leases of
// one claim do not exclude each other. It returns the first 100 findings.
func Overlap(holds []history.Hold) []Finding { return byResource(holds, overlap) }

func overlap(s *search, holds []history.Hold) {
	var active []history.Hold // those that may overlap with the next
	for _, h := range holds {
		active = slices.DeleteFunc(active, func(a history.Hold) bool { return a.End <= h.Begin })
		together := []history.Hold{h}
		units := h.Units
		for _, a := range active {
			by, ok := a.Overlap(h.Interval)
			switch {
			case !ok || oneClaim(a, h) || s.full():
			case excludes(a, h):
				s.report(Exclusion, []history.Hold{a, h}, "two were held at once for %v, and they exclude each other:",
					rounded(by))
			case h.Kind == history.Semaphore:
				together = append(together, a)
				units += a.Units
			}
		}
		if h.Kind == history.Semaphore && units > h.Limit && !s.full() {
			s.report(Limit, together, "%d units were held at once for %v, and the limit is %d:",
				units, rounded(inCommon(together)), h.Limit)
		}
		active = append(active, h)
	}
}

// excludes reports whether a and b must never be held at once, whatever their units.
func excludes(a, b history.Hold) bool {
	if a.Kind == history.Exclusive || b.Kind == history.Exclusive {
		return true
	}
	return a.Kind != b.Kind || a.Limit != b.Limit
}

// inCommon returns how long all of these are held at once.
func inCommon(holds []history.Hold) time.Duration {
	common := holds[0].Interval
	for _, h := range holds[1:] {
		common.Begin, common.End = max(common.Begin, h.Begin), min(common.End, h.End)
	}
	return common.End.Sub(common.Begin)
}

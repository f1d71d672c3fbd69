package check

import (
	"slices"

	"github.com/holdfast-go/holdfast/lab/history"
)

// Succession finds holds that began before the Until of an earlier holder. A holder that was paused, starved or cut
// off, and later found that its lock was lost, would have believed until its last Until if it had been running. So no
// hold that excludes it may begin before that Until, even if the two beliefs were never recorded at once. A holder that
// released its lock, was killed, or was notified of its loss before its Until does not count.
//
// There is one false finding: a holder that is notified of its loss after its last check, and paused before its next
// one, no longer believed. Only a store that drops a claim before it expires can cause that.
func Succession(holds []history.Hold) []Finding { return byResource(holds, succession) }

func succession(s *search, holds []history.Hold) {
	var promised []history.Hold // those that count, and may still matter for later holds
	for _, h := range holds {
		promised = slices.DeleteFunc(promised, func(p history.Hold) bool { return p.Until <= h.Begin })
		for _, p := range promised {
			if _, overlap := p.Overlap(h.Interval); !overlap && !oneClaim(p, h) && excludes(p, h) && !s.full() {
				s.report(EarlyGrant, []history.Hold{p, h}, "a hold began %v before the Until of another holder:",
					rounded(p.Until.Sub(h.Begin)))
			}
		}
		if h.Lost != 0 && h.Until != 0 && h.Lost >= h.Until {
			promised = append(promised, h)
		}
	}
}

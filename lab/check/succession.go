package check

import "github.com/holdfast-go/holdfast/lab/history"

// Succession finds holds that began before the time that an earlier holder was promised had passed. A holder that was
// paused, starved or cut off, and that found later that its lock was lost, would have believed until its last Until if
// it had been awake. So no hold that excludes it may begin before that Until, though the two beliefs were never seen at
// once. A holder that has given its lock back, was killed, or was told of its loss before its Until does not count.
//
// A holder that the store told of its loss after its last check, and that was paused before its next, would be blamed
// for what it no longer believed. Only a store that has dropped a claim before its time can do that.
func Succession(holds []history.Hold) []Finding { return byResource(holds, succession) }

func succession(s *search, holds []history.Hold) {
	var promised []history.Hold // those that count, and may still do so for later holds
	for _, h := range holds {
		kept := promised[:0]
		for _, p := range promised {
			if p.Until > h.Begin {
				kept = append(kept, p)
			}
		}
		promised = kept
		for _, p := range promised {
			if _, overlap := p.Overlap(h.Interval); !overlap && !oneClaim(p, h) && excludes(p, h) && !s.full() {
				s.report(EarlyGrant, []history.Hold{p, h},
					"a hold began %v before the time that another holder was promised had passed:",
					rounded(p.Until.Sub(h.Begin)))
			}
		}
		if h.Lost != 0 && h.Until != 0 && h.Lost >= h.Until {
			promised = append(promised, h)
		}
	}
}

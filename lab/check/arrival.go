package check

import (
	"cmp"
	"slices"

	"github.com/holdfast-go/holdfast/lab/history"
)

// Arrival finds claims that were overtaken, for stores that promise first come, first served. It considers only pairs
// whose order is certain: the first claim was acknowledged before the second was sent. Then the first has the smaller
// ticket. And if one of them is exclusive, no hold of the first begins after one of the second: while the first is in
// the queue, the second cannot hold. Claims that never held, and shared claims among themselves, are judged by their
// tickets alone.
func Arrival(arrivals []history.Arrival, holds []history.Hold) []Finding {
	names, lines := grouped(arrivals, func(a history.Arrival) string { return a.Resource })
	sorted := slices.Clone(holds)
	history.Sort(sorted)
	_, held := grouped(sorted, func(h history.Hold) string { return h.Resource })
	return searchEach(names, origin(sorted), func(s *search) {
		tickets(s, lines[s.resource])
		overtaking(s, lines[s.resource], held[s.resource])
	})
}

// tickets finds pairs of claims whose tickets are in the opposite order of their arrival. Each claim is compared with
// one other: of the claims that were acknowledged before it was sent, the one with the greatest ticket.
func tickets(s *search, arrivals []history.Arrival) {
	bySent := sortedBy(arrivals, func(a history.Arrival) history.Instant { return a.Begin })
	byAck := sortedBy(arrivals, func(a history.Arrival) history.Instant { return a.End })
	var greatest history.Arrival
	for _, b := range bySent {
		for len(byAck) > 0 && byAck[0].End < b.Begin {
			if byAck[0].Ticket > greatest.Ticket {
				greatest = byAck[0]
			}
			byAck = byAck[1:]
		}
		if greatest.Ticket >= b.Ticket && !s.full() {
			s.note(Overtaken, history.Interval{Begin: greatest.End, End: b.End}, []history.Who{greatest.Who, b.Who},
				"a claim of %s was acknowledged with ticket %d, and a claim of %s that was sent %v later got ticket %d",
				greatest.Who, greatest.Ticket, b.Who, rounded(b.Begin.Sub(greatest.End)), b.Ticket)
		}
	}
}

// A stay is a claim that was held, with the first and the last of its holds to begin.
type stay struct {
	history.Arrival
	first, last history.Hold
}

// overtaking finds claims that were held while an earlier one was still ahead of them.
func overtaking(s *search, arrivals []history.Arrival, holds []history.Hold) {
	stays := staysOf(arrivals, holds)
	for _, a := range stays {
		// A hold before a was sent did not overtake it, so the search ends there.
		before, _ := slices.BinarySearchFunc(stays, a.last.Begin, func(b *stay, at history.Instant) int {
			return cmp.Compare(b.first.Begin, at)
		})
		for _, b := range slices.Backward(stays[:before]) {
			if b.first.Begin < a.Begin || s.full() {
				break
			}
			if a.End < b.Begin && excludes(a.last, b.first) {
				s.report(Overtaken, []history.Hold{b.first, a.last},
					"the first of these claims was sent %v after the second was acknowledged, and held before it:",
					b.Begin.Sub(a.End))
			}
		}
	}
}

// staysOf returns the claims that were held, in order of their first hold.
func staysOf(arrivals []history.Arrival, holds []history.Hold) []*stay {
	byTicket := map[uint64]*stay{}
	for _, h := range holds { // in order of their beginning
		if known := byTicket[h.Token.Ticket()]; known != nil {
			known.last = h
		} else {
			byTicket[h.Token.Ticket()] = &stay{first: h, last: h}
		}
	}
	var stays []*stay
	for _, a := range arrivals {
		if known := byTicket[a.Ticket]; known != nil {
			known.Arrival = a
			stays = append(stays, known)
		}
	}
	return sortedBy(stays, func(s *stay) history.Instant { return s.first.Begin })
}

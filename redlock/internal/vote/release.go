package vote

import "time"

// leave starts to release the key wherever it may be.
func (h *attempt) leave(now time.Duration) {
	if h.phase >= leaving {
		return
	}
	h.phase = leaving
	h.forget = h.lastSet + patience*h.life
	h.pause = min(h.Timeout(h.ttl)/2, h.life/8)
	for i := range h.seats {
		s := &h.seats[i]
		s.acked = !h.mayHave(s)
		s.spared = !s.acked && h.due(now, s)
	}
	h.sendLeaves(now)
	h.finish()
}

// giveUp publishes the release although this claim will not try again: it may have blocked others, which now wait for
// its release. A release that was sent already is published again.
func (h *attempt) giveUp() {
	if h.tell {
		return
	}
	h.tell = true
	for i := range h.seats {
		if h.phase >= leaving && h.seats[i].granted {
			h.request(i, Leave)
		}
	}
}

// patience is for how many lives of a key the release is repeated, in case a slow take or keep sets it after all.
const patience = 2

// mayHave reports whether a node may have the key, now or later.
func (h *attempt) mayHave(s *nodeView) bool {
	if h.Without.Has(LeaveFailed) {
		return s.granted
	}
	return s.touched && (s.pending != 0 || s.stale || s.granted || h.held)
}

// due reports whether the answer of a node to its take may arrive at any moment. Then the release waits for it, for one
// pause: a release that is sent before needs a tombstone, and has to be sent again after the answer.
func (h *attempt) due(now time.Duration, s *nodeView) bool {
	return h.round.op != Keep && s.pending != 0 && !s.silent && !s.stale && now < h.round.deadline
}

// sendLeaves sends the release to every node that has not acknowledged it, except those that are spared.
func (h *attempt) sendLeaves(now time.Duration) {
	h.round.number++
	for i := range h.seats {
		if s := &h.seats[i]; !s.acked && !s.spared {
			h.request(i, Leave)
		}
	}
	h.again = now + h.pause
	h.pause = min(2*h.pause, h.life/4)
}

// repeat sends releases again that are not acknowledged. If every take and keep was answered, the key expires by
// itself; one without an answer may still set the key, whenever it arrives.
func (h *attempt) repeat(now time.Duration) {
	if now >= h.lastSet+h.life+time.Duration(float64(h.life)*h.DriftPart)+tick {
		for i := range h.seats {
			s := &h.seats[i]
			s.acked = s.acked || s.pending == 0 && !s.stale
		}
		h.finish()
	}
	switch {
	case h.phase == done:
	case now >= h.forget:
		h.phase = done
	case now >= h.again && h.Without.Has(RepeatLeave):
		h.again = h.forget
	case now >= h.again:
		for i := range h.seats {
			h.seats[i].spared = false
		}
		h.sendLeaves(now)
	}
}

func (h *attempt) acknowledged(s *nodeView, number uint64, a *Answer) {
	if a.Code == Left && number >= s.leave {
		s.acked, s.denied = true, s.denied && a.Votes
		h.finish()
	}
}

// late handles an answer that arrives during the release: if the key was set after all, it is released again, or now.
func (h *attempt) late(now time.Duration, node int, op Op, a *Answer) {
	s := &h.seats[node]
	set := a.Code == Kept || a.Code == Repaired || a.Code == Granted && op == Take
	waited := s.spared && op != Raise
	s.spared = s.spared && !waited
	switch {
	case h.phase != leaving:
	case set && (waited || !h.Without.Has(LeaveAgain)):
		h.round.number++
		s.acked, s.leave = false, h.round.number
		h.request(node, Leave)
		h.lastSet, h.forget = now, max(h.forget, now+h.life) // it was set before now, whenever that was
		h.again = min(h.again, now+h.pause)
	case waited && h.mayHave(s):
		h.request(node, Leave)
	case waited:
		s.acked = true
	}
	h.finish()
}

// finish ends the attempt if nothing can arrive any more.
func (h *attempt) finish() {
	if h.phase == leaving &&
		h.count(func(s *nodeView) bool { return s.acked && s.pending == 0 && !s.stale }) == len(h.seats) {
		h.phase = done
	}
}

// clean returns how many nodes have no key of this attempt.
func (h *attempt) clean() int { return h.count(func(s *nodeView) bool { return s.acked }) }

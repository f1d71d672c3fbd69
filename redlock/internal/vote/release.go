package vote

import "time"

// leave begins to give the key back, wherever it may be.
func (h *hold) leave(now time.Duration) {
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

// giveUp has the release told by one who will not try again. He may have been in the way of others, who now wait for him to
// get the lock and tell of that. What is given back already is told again.
func (h *hold) giveUp() {
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

// patience is for how many lives of a key it is given back again, should a slow take or keep set it after all.
const patience = 2

// mayHave says whether a node may have the key, now or later.
func (h *hold) mayHave(s *seat) bool {
	if h.Without.Has(LeaveFailed) {
		return s.granted
	}
	clean := !s.touched || s.pending == 0 && !s.stale && !s.granted && !h.held
	return !clean
}

// due says whether the answer of a node to its take may come at any moment. Then that is waited for, for one pause: a release
// that is sent before it needs a tombstone, and has to be sent again after it.
func (h *hold) due(now time.Duration, s *seat) bool {
	return h.round.op != Keep && s.pending != 0 && !s.silent && !s.stale && now < h.round.deadline
}

// sendLeaves asks every node that has not acknowledged, but for those that are spared.
func (h *hold) sendLeaves(now time.Duration) {
	h.round.number++
	for i := range h.seats {
		if s := &h.seats[i]; !s.acked && !s.spared {
			h.request(i, Leave)
		}
	}
	h.again = now + h.pause
	h.pause = min(2*h.pause, h.life/4)
}

// repeat sends again what is not acknowledged. Where every take and keep was answered, what they set runs out by itself;
// one that was not may still set the key, whenever it arrives.
func (h *hold) repeat(now time.Duration) {
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

func (h *hold) acknowledged(s *seat, number uint64, a *Answer) {
	if a.Code == Left && number >= s.leave {
		s.acked, s.denied = true, s.denied && a.Votes
		h.finish()
	}
}

// late is an answer that comes when the key is given back: if it was set after all, it is given back again, or now.
func (h *hold) late(now time.Duration, node int, op Op, a *Answer) {
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

// finish ends the hold if nothing can come any more.
func (h *hold) finish() {
	if h.phase == leaving && h.count(func(s *seat) bool { return s.acked && s.pending == 0 && !s.stale }) == len(h.seats) {
		h.phase = done
	}
}

// clean is how many nodes have no key of this hold.
func (h *hold) clean() int { return h.count(func(s *seat) bool { return s.acked }) }

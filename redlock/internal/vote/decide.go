package vote

import "time"

// decide gives the result of the call under way, if there is one by now.
func (c *Claim) decide(now time.Duration, h *hold) (r Result) {
	if c.call == Take && h.phase == taking {
		r = c.decideTake(now, h)
	}
	switch {
	case c.call == Take && h.phase == raising: // also when it has just begun
		r = c.decideRaise(now, h)
	case c.call == Keep:
		r = c.decideKeep(now, h)
	case c.call == Leave:
		r = c.decideLeave(now, h)
	}
	if r.Verdict != 0 {
		c.call = 0
		h.round.result = true
	}
	return r
}

// decideTake goes on when a majority has granted, and gives up when none can any more.
func (c *Claim) decideTake(now time.Duration, h *hold) Result {
	if h.probing {
		if r, over := c.decideProbe(now, h); over || h.probing {
			return r
		}
	}
	granted := h.count(func(s *seat) bool { return s.granted && !s.mad })
	switch {
	case granted < h.Majority() && granted+h.open() < h.Majority():
		c.ceiling = 0
		return c.lose(now, h, h.barred())
	case granted < h.Majority():
		return Result{}
	}
	h.until = h.Rules.until(h.began, now, h.ttl)
	if now >= h.until { // this process was paused
		return c.lose(now, h, false)
	}
	if h.count(func(s *seat) bool { return s.granted && s.raised }) >= h.Majority() {
		h.ticket = h.proposal
		return c.win(h)
	}
	h.ticket = h.propose()
	if h.Unsaved {
		return c.win(h)
	}
	h.phase = raising
	h.ask(now, Raise)
	if h.Without.Has(WriteBack) {
		return c.win(h)
	}
	return Result{}
}

// propose gives a ticket above all that a majority knew when it granted.
func (h *hold) propose() uint64 {
	mark := h.floor
	for i := range h.seats {
		if h.seats[i].granted && !h.seats[i].mad {
			mark = max(mark, h.seats[i].mark)
		}
	}
	return mark + 1
}

// barred says whether failures alone make a majority impossible, so that nobody else need be at fault.
func (h *hold) barred() bool {
	failed := h.count(func(s *seat) bool {
		return s.mad || s.answered && s.said.Code != Granted && s.said.Code != Denied || !s.answered && h.round.timeUp
	})
	return failed > h.Nodes-h.Majority()
}

// decideRaise ends the draw of a ticket that could not be had with the take.
//
// A node whose mark is mad would let nobody draw, for the others refuse what is so high. Then the next try does without the
// grants of such nodes. That is safe: had anybody drawn a ticket as high, a majority would have it, and without
// those nodes there is none.
func (c *Claim) decideRaise(now time.Duration, h *hold) Result {
	raised := h.count(func(s *seat) bool { return s.raised })
	switch {
	case raised >= h.Majority():
		if now >= h.until && !h.Without.Has(TimeAfterRaise) {
			return c.lose(now, h, false)
		}
		return c.win(h)
	case raised+h.open() < h.Majority() && h.ceiling == 0 && h.said(TooHigh, TooHigh) > 0:
		c.ceiling = h.ticket
		return c.lose(now, h, false)
	case raised+h.open() < h.Majority():
		return c.lose(now, h, true)
	}
	return Result{}
}

func (c *Claim) win(h *hold) Result {
	h.phase, h.held, h.tell = holding, true, true
	c.state = Held
	c.pacer.won()
	return Result{Verdict: Won, Ticket: h.ticket, Until: h.until}
}

// lose gives back all that was taken, also where it seems to have failed.
func (c *Claim) lose(now time.Duration, h *hold, fault bool) Result {
	r := Result{Verdict: Lost}
	c.shun(h)
	c.pacer.lost(now, h, c.held(h), fault, c.first())
	r.Again, r.Awaits = c.pacer.again, c.pacer.awaited
	for i := range h.seats {
		if said := &h.seats[i].said; said.Code == Denied {
			r.Holder = *said
		}
	}
	if fault {
		r.Verdict = Faulty
	}
	c.state = Waiting
	h.leave(now)
	return r
}

// decideKeep renews when a majority counts. A node without a vote does not: it may have granted the key to somebody
// else before it lost its data.
func (c *Claim) decideKeep(now time.Duration, h *hold) Result {
	counted := h.counted()
	lost := h.said(Denied, Buried) > h.Nodes-h.Majority()
	switch {
	case c.expired(now) && !lost && now < h.until+h.life-h.ttl:
		return Result{Verdict: Faulty} // for its grace it keeps its place, until it leaves
	case c.expired(now), lost:
		c.state = Over
		h.leave(now)
		return Result{Verdict: Gone}
	case counted >= h.Majority():
		h.until = max(h.until, h.Rules.until(h.round.sent, now, h.ttl))
		return Result{Verdict: Won, Ticket: h.ticket, Until: h.until}
	case counted+h.open() < h.Majority() && h.said(Denied, Buried)+h.open() <= h.Nodes-h.Majority():
		return Result{Verdict: Faulty} // and those that may still answer cannot make it Gone
	}
	return Result{}
}

// freed says whether somebody else can have a majority now, by all that is known: where the key never was, a node may have
// acknowledged its end and still be of no use to anybody.
func (h *hold) freed() bool {
	had := h.count(func(s *seat) bool { return s.had })
	acked := h.count(func(s *seat) bool { return s.had && s.acked })
	return acked >= min(had, h.Majority()) && h.clean() >= h.Majority()
}

// sparable says whether a majority has acknowledged that works, though at some of its nodes somebody else had the key. He may
// still have it, so that those that had it are waited for, but not for long.
func (h *hold) sparable() bool {
	return h.count(func(s *seat) bool { return s.acked && (s.had || s.denied) }) >= h.Majority()
}

func (c *Claim) decideLeave(now time.Duration, h *hold) Result {
	switch {
	case h.phase == done || h.freed():
		return Result{Verdict: Free}
	case now >= c.spareFrom && h.sparable(): // one that had it hangs, or is slow
		return Result{Verdict: Free}
	case now >= c.leaveBy && h.clean() >= h.Majority(): // of those that had it some are down, and enough others are there
		return Result{Verdict: Free}
	case now >= c.leaveBy:
		return Result{Verdict: Faulty}
	}
	return Result{}
}

// settle says once for each take and keep that nothing more is to be counted in.
func (h *hold) settle() bool {
	if h.phase != holding || h.round.settled || !h.round.result {
		return false
	}
	if !h.round.timeUp && h.round.op == Keep && h.open() > 0 {
		return false
	}
	if !h.round.timeUp && h.round.op != Keep && h.count(func(s *seat) bool { return s.pending != 0 }) > 0 {
		return false
	}
	h.round.settled = true
	return true
}

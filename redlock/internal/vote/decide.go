package vote

import "time"

// decide returns the result of the call in progress, if there is one now.
func (c *Claim) decide(now time.Duration, h *attempt) (r Result) {
	if c.call == Take && h.phase == taking {
		r = c.decideTake(now, h)
	}
	switch {
	case c.call == Take && h.phase == raising: // even if it has just begun
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

// decideTake continues when a majority has granted, and loses when none can any more.
func (c *Claim) decideTake(now time.Duration, h *attempt) Result {
	if h.probing {
		if r, over := c.decideProbe(now, h); over || h.probing {
			return r
		}
	}
	granted := h.count(func(s *nodeView) bool { return s.granted && !s.markTooHigh })
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
	if h.count(func(s *nodeView) bool { return s.granted && s.raised }) >= h.Majority() {
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

// propose returns a ticket above all that a majority knew when it granted.
func (h *attempt) propose() uint64 {
	mark := h.floor
	for i := range h.seats {
		if h.seats[i].granted && !h.seats[i].markTooHigh {
			mark = max(mark, h.seats[i].mark)
		}
	}
	return mark + 1
}

// barred reports whether failures alone make a majority impossible, whatever other claims do.
func (h *attempt) barred() bool {
	failed := h.count(func(s *nodeView) bool {
		return s.markTooHigh || s.answered && s.reply.Code != Granted && s.reply.Code != Denied ||
			!s.answered && h.round.timeUp
	})
	return failed > h.Nodes-h.Majority()
}

// decideRaise ends the draw of a ticket that was not accepted with the take.
//
// A node whose mark is far too high would block every draw, since the others refuse a ticket above it. Then the next
// try does not count the grants of such nodes. That is safe: if any claim had drawn a ticket as high, a majority would
// have it, and without those nodes there is none.
func (c *Claim) decideRaise(now time.Duration, h *attempt) Result {
	raised := h.count(func(s *nodeView) bool { return s.raised })
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

func (c *Claim) win(h *attempt) Result {
	h.phase, h.held, h.tell = holding, true, true
	c.state = Held
	c.pacer.won()
	return Result{Verdict: Won, Ticket: h.ticket, Until: h.until}
}

// lose releases all that was taken, including where the take seems to have failed.
func (c *Claim) lose(now time.Duration, h *attempt, fault bool) Result {
	r := Result{Verdict: Lost}
	c.avoid(h)
	c.pacer.lost(now, h, c.held(h), fault, c.first())
	r.Again, r.Awaits = c.pacer.again, c.pacer.awaited
	for i := range h.seats {
		if said := &h.seats[i].reply; said.Code == Denied {
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

// decideKeep renews when a majority counts. A node without a vote does not: it may have granted the key to another
// claim before it lost its data.
func (c *Claim) decideKeep(now time.Duration, h *attempt) Result {
	counted := h.counted()
	lost := h.said(Denied, Buried) > h.Nodes-h.Majority()
	switch {
	case c.expired(now) && !lost && now < h.until+h.life-h.ttl:
		return Result{Verdict: Faulty} // for its grace it keeps the keys, until it leaves
	case c.expired(now), lost:
		c.state = Over
		h.leave(now)
		return Result{Verdict: Gone}
	case counted >= h.Majority():
		h.until = max(h.until, h.Rules.until(h.round.sent, now, h.ttl))
		return Result{Verdict: Won, Ticket: h.ticket, Until: h.until}
	case counted+h.open() < h.Majority() && h.said(Denied, Buried)+h.open() <= h.Nodes-h.Majority():
		return Result{Verdict: Faulty} // the nodes that may still answer cannot make it Gone
	}
	return Result{}
}

// freed reports whether another claim can have a majority now, by all that is known: a node that never had the key may
// have acknowledged the release and still be useless for other claims.
func (h *attempt) freed() bool {
	had := h.count(func(s *nodeView) bool { return s.had })
	acked := h.count(func(s *nodeView) bool { return s.had && s.acked })
	return acked >= min(had, h.Majority()) && h.clean() >= h.Majority()
}

// sparable reports whether a majority of working nodes has acknowledged, though at some of them another claim had the
// key. It may still have it, so the nodes that had our key are waited for, but not for long.
func (h *attempt) sparable() bool {
	return h.count(func(s *nodeView) bool { return s.acked && (s.had || s.denied) }) >= h.Majority()
}

func (c *Claim) decideLeave(now time.Duration, h *attempt) Result {
	switch {
	case h.phase == done || h.freed():
		return Result{Verdict: Free}
	case now >= c.spareFrom && h.sparable(): // a node that had it hangs, or is slow
		return Result{Verdict: Free}
	case now >= c.leaveBy && h.clean() >= h.Majority(): // some nodes that had it are down, and enough others are there
		return Result{Verdict: Free}
	case now >= c.leaveBy:
		return Result{Verdict: Faulty}
	}
	return Result{}
}

// settle reports, once for each take and keep, that no more answers are expected.
func (h *attempt) settle() bool {
	if h.phase != holding || h.round.settled || !h.round.result {
		return false
	}
	if !h.round.timeUp && h.round.op == Keep && h.open() > 0 {
		return false
	}
	if !h.round.timeUp && h.round.op != Keep && h.count(func(s *nodeView) bool { return s.pending != 0 }) > 0 {
		return false
	}
	h.round.settled = true
	return true
}

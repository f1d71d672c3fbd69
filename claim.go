package holdfast

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A phase is where a claim stands as this client believes it.
type phase uint8

const (
	joining phase = iota // Join was not answered yet
	waiting
	held
	leaving // out for us; the store is still to be told
	over
)

// A claim is a place in a line, as this client knows it. All but until, ended and failed, which are read and written
// without a lock, and ID, Name, Kind, Limit and Grace, which do not change, is guarded by the client's mu.
type claim struct {
	store.Claim
	until instant     // up to when it stands, as the last acknowledged Join or Keep said
	ended atomic.Bool // somebody was told that its time ran out: no later answer makes that untrue
	end   *time.Time  // FixedTTL: when it is over, once it is held

	phase   phase
	standby bool                  // it is its relay's standby
	shown   bool                  // a guard goes by it: it is never anybody else's
	calling bool                  // a call about it is under way or about to be
	again   bool                  // something came up while a call was under way: ask again after it
	fails   int32                 // calls about it that failed in a row
	relay   *relay                // whom it is for
	owner   *owner                // nil: its ID stands for its owner
	lease   *Lease                // when held, once somebody has taken it
	first   Lease                 // where lease points to at first: one allocation for both
	more    []*Lease              // further leases of the same owner, by re-entrance
	failed  atomic.Pointer[error] // the last failure of the store to answer about it; nil if it answered since
	heldFor uint64                // how many calls of Keep had been made when it was first believed held
	since   time.Duration         // when that was, on the monotonic clock
	hushed  int64                 // no doubtful push makes us ask before this, on the monotonic clock; 0: any does

	due    int64 // when to speak with the store about it again
	pos    int   // its index in the agenda, or agenda.Off
	giveUp int64 // leaving: when the store will have forgotten it by itself

	lingers bool // leaving, but not before its leases were given back or the grace is over
}

// hold makes cl held from now on.
func (c *Client) hold(cl *claim, now time.Time) {
	cl.phase = held
	cl.heldFor = c.keeper.sent
	cl.since = now.Sub(c.start)
	if fixed := cl.relay.lock.settings.fixed; fixed > 0 {
		end := now.Add(fixed)
		cl.end = &end
		cl.until.lower(c.start, end)
	}
}

// isOver says whether the time of a held claim has run out, by the clocks or because somebody was told so.
func (c *Client) isOver(cl *claim, now time.Time) bool {
	return cl.ended.Load() || cl.until.passed(c.start, now)
}

// lose makes a held claim over. Its leases end now; the store is told to forget it. But if its time ran out, and it
// has a grace, something that its holder set going may still be under way: then the store keeps the place until the
// holder has given its leases back, or the grace is over.
func (c *Client) lose(cl *claim, why error) {
	c.endLeases(cl, why)
	if cl.Grace > 0 && cl.lease != nil && !errors.Is(why, errWithdrawn) {
		c.retire(cl)
		cl.lingers, cl.calling = true, false
		cl.due = c.now() + int64(cl.Grace)
		c.schedule(cl)
	} else {
		c.withdraw(cl)
	}
	c.staff(cl.relay)
}

// givenBack notes that the holder of a lease which was lost is done with it.
func (c *Client) givenBack(l *Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := l.claim
	if cl.phase == held && c.isOver(cl, time.Now()) {
		c.lose(cl, cl.ranOut()) // the lease knew it before the keeper
	}
	if !cl.lingers || cl.lease != l && !slices.Contains(cl.more, l) || cl.stillHas(l) {
		return
	}
	cl.lingers = false
	c.speak(cl)
}

// gone is what the store says of a claim that it has no more.
func (c *Client) gone(cl *claim) {
	waited := cl.phase == waiting
	c.endLeases(cl, errWithdrawn)
	c.drop(cl)
	if waited {
		c.abandon(cl, errPlaceLost)
	} else {
		c.staff(cl.relay)
	}
}

// endLeases makes the leases over that cl has, as far as nobody has found that out before.
func (c *Client) endLeases(cl *claim, why error) {
	lost := c.failed(opHold, cl.Name, why)
	for _, l := range cl.more {
		l.end(&lost)
	}
	if cl.lease != nil {
		cl.lease.end(&lost)
		c.warn("holdfast: lease lost", "name", cl.Name, "token", cl.lease.token, "err", lost)
	}
}

// drop forgets cl: the store has it no more, or is just being told.
func (c *Client) drop(cl *claim) {
	c.unschedule(cl)
	delete(c.claims, cl.ID)
	cl.phase = over
	c.vacate(cl)
	c.disown(cl)
}

// withdraw hands cl to the keeper, which tells the store to take it out until the store has done so, or has
// forgotten it by itself.
func (c *Client) withdraw(cl *claim) {
	c.retire(cl)
	c.speak(cl)
}

// retire makes cl one that is to leave.
func (c *Client) retire(cl *claim) {
	cl.phase = leaving
	cl.fails = 0
	cl.giveUp = c.now() + int64(cl.TTL+cl.Grace)
	c.claims[cl.ID] = cl
	c.vacate(cl)
	c.disown(cl)
}

// setUntil notes up to when cl stands.
func (c *Client) setUntil(cl *claim, t time.Time) {
	cl.until.set(c.start, t, cl.end)
}

// onPush takes news from the store. It may be lost, late, early or forged (rule 7 of package store): only a grant with
// the ticket that an answer has brought is believed, and anything else is a reason to ask. Its ticket does not raise
// the floor: a mad one would make this client unusable.
func (c *Client) onPush(id store.ID, s store.Standing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed() {
		return
	}
	if id == store.Everyone {
		c.keepEverything()
		return
	}
	cl := c.claims[id]
	switch {
	case cl == nil:
	case cl.phase == joining:
		c.ask(cl)
	case s.State == store.Waiting && cl.phase == waiting:
		c.ask(cl) // it may fit now, and the store cannot tell
	case s.State == store.Held && cl.phase == waiting && cl.Ticket != 0 && s.Ticket == cl.Ticket:
		c.pushedGrant(cl)
	case s.State == store.Held && cl.phase == waiting, s.State == store.Gone && (cl.phase == held || cl.phase == waiting):
		c.doubt(cl)
	}
}

// doubt asks the store about a claim after a push that is not believed. Strangers may have forged it, and may send
// more: so it asks at once, and for all that come within ttl/16 after that once more at their end (see later).
func (c *Client) doubt(cl *claim) {
	now := c.now()
	if now < cl.hushed {
		return
	}
	cl.hushed = now + int64(cl.TTL/doubtPause)
	c.ask(cl)
}

// pushedGrant believes a push, as far as the last acknowledged call goes. If that is not far enough, Keep has
// to confirm it first. In any case it follows soon: not at once, so that a short hold costs no call more.
func (c *Client) pushedGrant(cl *claim) {
	now := time.Now()
	if cl.until.passed(c.start, now) {
		c.ask(cl)
		return
	}
	c.hold(cl, now)
	cl.due = min(cl.due, int64(now.Sub(c.start)+cl.TTL/confirmWithin))
	c.schedule(cl)
	c.deliver(cl)
}

// answered takes the store's answer to a Keep. It was the sent-th call.
func (c *Client) answered(cl *claim, s store.Standing, sent uint64, now time.Time) {
	if cl.phase != held && cl.phase != waiting {
		return // it was over while the call was under way
	}
	cl.calling = false
	if s.Err != nil {
		c.unanswered(cl, s.Err)
		return
	}
	c.heard++
	c.see(s.Ticket)
	cl.fails = 0
	cl.failed.Store(nil)
	switch {
	case s.State == store.Gone:
		c.gone(cl)
		return
	case cl.ended.Load():
		c.lose(cl, errRanOut)
		return
	case s.State == store.Waiting && cl.phase == held && sent > cl.heldFor:
		c.lose(cl, errWithdrawn) // it was granted, and the store lost the grant
		return
	case s.State == store.Waiting && cl.phase == held:
		c.schedule(cl) // old news: it was asked before the grant came
		return
	}
	c.setUntil(cl, s.Until)
	granted := s.State == store.Held && cl.phase == waiting && !cl.until.passed(c.start, now)
	if granted {
		cl.Ticket = s.Ticket // a store without a line draws it only now
		c.hold(cl, now)
	}
	if c.later(cl, s, now); granted {
		c.deliver(cl)
	}
}

// unanswered notes that the store did not answer, or that it did not know.
func (c *Client) unanswered(cl *claim, err error) {
	cl.calling = false
	cl.failed.Store(&err)
	cl.fails++
	cl.due = c.now() + int64(backoff(cl.TTL, cl.fails))
	if cl.fails == 1 {
		c.warn("holdfast: not renewed; trying again", "name", cl.Name, "err", err)
	}
	if o := c.settings.observer; o != nil && cl.lease != nil {
		left := time.Duration(cl.until.mono.Load() - c.now())
		o.Jeopardy(newRequest("renew", cl.Name, c.abilities.Store, cl.Ask), cl.lease.token, left, err)
	}
	if cl.phase == waiting && store.Final(err) {
		c.withdraw(cl)
		c.abandon(cl, err)
		return
	}
	c.schedule(cl)
}

// ranOut is why a lease is lost whose time passed. It needs no lock.
func (cl *claim) ranOut() error {
	fault := cl.fault()
	if fault == nil || errors.Is(fault, ErrLost) {
		return errRanOut
	}
	return errors.Join(errNotRenewed, fault)
}

// fault is the last failure of the store to answer about the claim, or nil if it has answered since.
func (cl *claim) fault() error {
	if err := cl.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// sharedBy is what the holders of a lease that is not exclusive are.
func (cl *claim) sharedBy() string {
	if cl.Kind == store.Semaphore {
		return "semaphore's"
	}
	return "reader's"
}

// StandAt notes where on the keeper's agenda it is.
func (cl *claim) StandAt(i int) { cl.pos = i }

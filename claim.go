package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/agenda"
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
	end   *time.Time  // WithFixedTTL: when it is over, once it is held

	phase   phase
	standby bool                  // it is its queue's standby, or was when it failed
	pinned  bool                  // a guard goes by it: it is never anybody else's
	calling bool                  // a call about it is under way or about to be
	again   bool                  // something came up while a call was under way: ask again after it
	fails   int32                 // calls about it that failed in a row
	queue   *localQueue           // whom it is for
	owner   *owner                // nil: its ID stands for its owner
	lease   *Lease                // when held, once somebody has taken it
	first   Lease                 // where lease points to at first: one allocation for both
	more    []*Lease              // further leases of the same owner, by re-entrance
	failed  atomic.Pointer[error] // the last failure of the store to answer about it; nil if it answered since
	heldFor uint64                // how many calls of Keep had been made when it was first believed held
	since   int64                 // when that was, on the monotonic clock
	hushed  int64                 // no doubtful push makes us ask before this, on the monotonic clock; 0: any does

	due    int64 // when to call the store about it again
	pos    int   // its index in the agenda, or agenda.Off
	giveUp int64 // leaving: when the store will have forgotten it by itself

	lingers bool // leaving, but not before its leases were given back or the grace is over
}

// newClaim makes a claim of q for r and registers it, so that pushes for it find it.
func (c *Client) newClaim(r *request, q *localQueue) *claim {
	s := r.lock.settings
	cl := &claim{queue: q, pos: agenda.Off, Claim: Claim{
		ID: c.ids.next(), Name: r.lock.name, Demand: r.demand, TTL: s.ttl, Grace: s.grace, Try: r.try,
		Floor: c.floor, Owner: r.shownOwner(),
	}}
	c.claims[cl.ID] = cl
	return cl
}

// joined takes the store's answer to a Join. Without an error the claim is held, or waits.
func (c *Client) joined(cl *claim, s store.Status, err error) error {
	closed := c.isClosed()
	if err == nil || store.Final(err) {
		c.heard++
	}
	if err != nil {
		switch {
		case store.Final(err):
			c.drop(cl)
		case closed:
			c.drop(cl)
			c.leaveLate(cl.Claim)
		default:
			c.withdraw(cl) // it may still land (rule 8 of package store)
		}
		return err
	}
	c.floor = max(c.floor, s.Ticket)
	cl.Ticket = s.Ticket
	cl.setFault(nil)
	switch {
	case s.State == store.Gone && cl.Try:
		c.drop(cl)
		return lockedBy(cl.Name, s.Holder, s.Ahead, nil)
	case s.State == store.Gone:
		c.drop(cl)
		return errPlaceLost
	case closed:
		c.drop(cl)
		c.leaveLate(cl.Claim)
		return ErrClosed
	}
	now := time.Now()
	cl.until.set(s.Until, cl.end)
	if s.State == store.Waiting {
		cl.phase = waiting
		cl.queue.touch()
	} else if c.hold(cl, now); cl.until.passed(now) {
		c.withdraw(cl)
		return fmt.Errorf("%w of %v", errLateGrant, cl.TTL)
	}
	c.keeper.keepLater(cl, s, now)
	return nil
}

// hold makes cl held from now on. Its queue delivers it, unless the caller does.
func (c *Client) hold(cl *claim, now time.Time) {
	cl.phase = held
	cl.heldFor = c.keeper.sent
	cl.since = mono(now)
	if fixed := cl.queue.lock.settings.fixed; fixed > 0 {
		end := now.Add(fixed)
		cl.end = &end
		cl.until.lower(end)
	}
	cl.queue.touch()
}

// handTo makes r the holder of cl, with l as its lease. The store learns who that is by the next Keep.
func (c *Client) handTo(cl *claim, r *request, l *Lease) {
	if cl.owner != r.owner {
		c.owners.disown(cl)
		r.owner.adopt(cl)
	}
	cl.Owner = r.shownOwner()
	r.lease = c.lease(r, l, cl)
}

// onPush takes news from the store. It may be lost, late, early or forged (rule 7 of package store): only a grant with
// the ticket that an answer has brought is believed, and anything else is a reason to ask. Its ticket does not raise
// the floor: a mad one would make this client unusable.
func (c *Client) onPush(id store.ID, s store.Status) {
	c.begin()
	defer c.end()
	if c.isClosed() {
		return
	}
	if id == store.Everyone {
		c.askAll()
		return
	}
	cl := c.claims[id]
	switch {
	case cl == nil:
	case cl.phase == joining:
		c.keeper.ask(cl)
	case s.State == store.Waiting && cl.phase == waiting:
		c.keeper.ask(cl) // it may fit now, and the store cannot tell
	case s.State == store.Held && cl.phase == waiting && cl.Ticket != 0 && s.Ticket == cl.Ticket:
		c.pushedGrant(cl)
	case s.State == store.Held && cl.phase == waiting, s.State == store.Gone && (cl.phase == held || cl.phase == waiting):
		c.keeper.doubt(cl)
	}
}

// askAll asks about all claims, after pushes may have been lost or a store was away. What is leaving is told again.
func (c *Client) askAll() {
	for _, cl := range c.claims {
		c.keeper.ask(cl)
	}
	for _, q := range c.queues {
		q.notYet = 0
		q.touch()
	}
}

// pushedGrant believes a push, as far as the last acknowledged call goes. If that is not far enough, Keep has
// to confirm it first. In any case it follows soon: not at once, so that a short hold costs no call more.
func (c *Client) pushedGrant(cl *claim) {
	now := time.Now()
	if cl.until.passed(now) {
		c.keeper.ask(cl)
		return
	}
	c.hold(cl, now)
	cl.due = min(cl.due, mono(now)+int64(cl.TTL/confirmWithin))
	c.keeper.schedule(cl)
}

// answered takes the store's answer to a Keep. It was the sent-th call.
func (c *Client) answered(cl *claim, s store.Status, sent uint64, now time.Time) {
	if cl.phase != held && cl.phase != waiting {
		return // it was over while the call was under way
	}
	cl.calling = false
	if s.Err != nil {
		c.unanswered(cl, s.Err)
		return
	}
	c.heard++
	c.floor = max(c.floor, s.Ticket)
	cl.fails = 0
	cl.setFault(nil)
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
		c.keeper.schedule(cl) // old news: it was asked before the grant came
		return
	}
	cl.until.set(s.Until, cl.end)
	if s.State == store.Held && cl.phase == waiting && !cl.until.passed(now) {
		cl.Ticket = s.Ticket // a store without a line draws it only now
		c.hold(cl, now)
	}
	c.keeper.keepLater(cl, s, now)
}

// unanswered notes that the store did not answer, or that it did not know.
func (c *Client) unanswered(cl *claim, err error) {
	if cl.fails == 0 {
		c.warn("holdfast: not renewed; trying again", "name", cl.Name, "err", err)
	}
	c.keeper.retryLater(cl, err)
	if o := c.settings.observer; o != nil && cl.lease != nil {
		left := time.Duration(cl.until.mono.Load() - monoNow())
		o.Jeopardy(newRequest("renew", cl.Name, c.abilities.Store, cl.Demand), cl.lease.token, left, err)
	}
	if cl.phase == waiting && store.Final(err) {
		c.withdraw(cl)
		cl.queue.claimFailed(cl, err)
	}
}

// gone takes the store's word that it has cl no more.
func (c *Client) gone(cl *claim) {
	waited := cl.phase == waiting
	c.endLeases(cl, errWithdrawn)
	c.drop(cl)
	if waited {
		cl.queue.claimFailed(cl, errPlaceLost)
	}
}

// lose makes a held claim over. Its leases end now; the store is told to forget it. But if its time ran out, and it
// has a grace, something that its holder set going may still be under way: then the store keeps the place until the
// holder has given its leases back, or the grace is over.
func (c *Client) lose(cl *claim, why error) {
	c.endLeases(cl, why)
	if cl.Grace == 0 || cl.lease == nil || errors.Is(why, errWithdrawn) {
		c.withdraw(cl)
		return
	}
	c.retire(cl)
	cl.lingers, cl.calling = true, false
	cl.due = monoNow() + int64(cl.Grace)
	c.keeper.schedule(cl)
}

// givenBack notes that the holder of a lease which was lost is done with it.
func (c *Client) givenBack(l *Lease) {
	c.begin()
	defer c.end()
	if c.isClosed() {
		return // Close has released it
	}
	cl := l.claim
	if cl.phase == held && cl.isOver(time.Now()) {
		c.lose(cl, cl.ranOut()) // the lease knew it before the keeper
	}
	if !cl.lingers || cl.lease != l && !slices.Contains(cl.more, l) || cl.stillHas(l) {
		return
	}
	c.keeper.enqueue(cl)
}

// release gives a lease back: to the next of this process, or to the store. If the store does not confirm it, the
// keeper repeats it.
func (c *Client) release(ctx context.Context, l *Lease, now time.Time) error {
	cl := l.claim
	c.begin()
	switch {
	case c.isClosed():
		c.end()
		return ErrClosed
	case cl.phase != held, // its time has just run out, and the keeper has it
		cl.stillHas(l), cl.queue.handOver(cl, now):
		c.end()
		return nil
	case ctx.Err() != nil:
		c.withdraw(cl)
		c.end()
		return done(ctx)
	}
	c.drop(cl)
	c.calls.Add(1)
	c.end()
	defer c.calls.Done()

	err := c.store.Leave(ctx, cl.Claim)
	if err != nil && !store.Final(err) {
		c.begin()
		if !c.isClosed() {
			c.withdraw(cl)
		}
		c.end()
	}
	return err
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

// withdraw hands cl to the keeper, which tells the store to take it out until the store has done so, or has
// forgotten it by itself.
func (c *Client) withdraw(cl *claim) {
	c.retire(cl)
	c.keeper.enqueue(cl)
}

// retire makes cl one that is to leave.
func (c *Client) retire(cl *claim) {
	cl.phase = leaving
	cl.fails = 0
	cl.giveUp = monoNow() + int64(cl.TTL+cl.Grace)
	c.claims[cl.ID] = cl
	cl.queue.vacate(cl)
	c.owners.disown(cl)
}

// drop forgets cl: the store has it no more, or is just being told.
func (c *Client) drop(cl *claim) {
	c.keeper.unschedule(cl)
	delete(c.claims, cl.ID)
	cl.phase = over
	cl.queue.vacate(cl)
	c.owners.disown(cl)
}

// isOver reports whether the time of a held claim has run out, by the clocks or because somebody was told so. It needs
// no lock, and neither do the next three.
func (cl *claim) isOver(now time.Time) bool { return cl.ended.Load() || cl.until.passed(now) }

// ranOut is why a lease is lost whose time passed.
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

func (cl *claim) setFault(err error) {
	if err == nil {
		cl.failed.Store(nil)
		return
	}
	failed := err // a copy, so that nil costs no memory
	cl.failed.Store(&failed)
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

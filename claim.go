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

// A phase is the state of a claim as this client believes it.
type phase uint8

const (
	joining phase = iota // Join has not returned yet
	waiting
	held
	leaving // over for this client; the store has not confirmed its Leave
	over
)

// A claim is a claim in a queue of the store, as this client knows it. until, ended and failed are read and written
// without a lock. ID, Name, Kind, Limit and Grace do not change. All else is guarded by the client's mu.
type claim struct {
	store.Claim
	until instant     // when it expires, by the last acknowledged Join or Keep
	ended atomic.Bool // its expiry was reported to a caller: no later response revives it
	end   *time.Time  // WithFixedTTL: when it is over, once it is held
	stay  *stay       // WithAtLeast: how long it stays taken, once it has a lease

	phase   phase
	standby bool                  // it is its queue's standby, or was when it failed
	pinned  bool                  // a guard of the store refers to it: it is never handed over
	calling bool                  // a call about it is under way or queued
	again   bool                  // something happened while a call was under way: call again after it
	fails   int32                 // calls about it that failed in a row
	queue   *localQueue           // the requests that it is for
	owner   *owner                // nil: its ID identifies its owner
	lease   *Lease                // when held, once a request has received it
	first   Lease                 // what lease points to at first: one allocation for both
	more    []*Lease              // further leases of the same owner, by re-entrance
	failed  atomic.Pointer[error] // the last failure of the store to respond about it; nil if it responded since
	heldAt  uint64                // how many calls of Keep had been made when it was first believed held
	since   int64                 // when that was, on the monotonic clock
	// until when pushes that are not believed cause no call, on the monotonic clock; 0: never
	quiet int64

	due    int64 // when to call the store about it again
	pos    int   // its index in the agenda, or agenda.Off
	giveUp int64 // leaving: when it will have expired in the store

	lingers bool // leaving, but not before its leases were unlocked or the grace is over
}

// A stay is how long a lock stays taken even if it is unlocked earlier. It does not change.
type stay struct {
	until int64    // on the monotonic clock
	as    store.ID // of the claim once it is detached
}

// newClaim makes a claim of q for r and registers it, so that pushes for it find it.
func (c *Client) newClaim(r *request, q *localQueue) *claim {
	s := r.lock.settings
	cl := &claim{queue: q, pos: agenda.Off, Claim: Claim{
		ID: c.ids.next(), Name: r.lock.name, Demand: r.demand, TTL: s.ttl, Grace: s.grace, Try: r.try,
		AnyLimit: s.anyLimit && r.demand.Kind == store.Semaphore, Floor: c.floor, Owner: r.shownOwner(),
	}}
	if r.detached != nil {
		cl.Turn = r.detached.turn
	}
	c.claims[cl.ID] = cl
	return cl
}

// joined handles the store's response to a Join. Without an error the claim is held, or waits.
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
			c.withdraw(cl) // the Join may still arrive (rule 8 of package store)
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
		return errClaimLost
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

// hold marks cl as held from now on. Its queue delivers it, unless the caller does.
func (c *Client) hold(cl *claim, now time.Time) {
	cl.phase = held
	cl.heldAt = c.keeper.sent
	cl.since = mono(now)
	if fixed := cl.queue.lock.settings.fixed; fixed > 0 {
		end := now.Add(fixed)
		cl.end = &end
		cl.until.lower(end)
	}
	cl.queue.touch()
}

// handTo makes r the holder of cl, with l as its lease. The next Keep reports the new owner to the store.
func (c *Client) handTo(cl *claim, r *request, l *Lease) {
	if cl.owner != r.owner {
		c.owners.disown(cl)
		r.owner.adopt(cl)
	}
	cl.Owner = r.shownOwner()
	if d := r.lock.settings.atLeast; d > 0 {
		cl.stay = &stay{cl.since + int64(d), c.ids.next()}
	}
	r.lease = c.lease(r, l, cl)
}

// onPush handles a push of the store. It may be lost, late, early or forged (rule 7 of package store): only a grant
// with the ticket that a response has brought is believed, and any other push is a reason to call Keep. Its ticket does
// not raise the floor: an invalid one would make this client unusable.
func (c *Client) onPush(id store.ID, s store.Status) {
	c.begin()
	defer c.end()
	if c.isClosed() {
		return
	}
	if id == store.Everyone {
		c.recheckAll()
		return
	}
	cl := c.claims[id]
	switch {
	case cl == nil:
	case cl.phase == joining:
		c.keeper.recheck(cl)
	case s.State == store.Waiting && cl.phase == waiting:
		c.keeper.recheck(cl) // it may fit now, and the store does not know
	case s.State == store.Held && cl.phase == waiting && cl.Ticket != 0 && s.Ticket == cl.Ticket:
		c.pushedGrant(cl)
	case s.State == store.Held && cl.phase == waiting, s.State == store.Gone &&
		(cl.phase == held || cl.phase == waiting):
		c.keeper.doubt(cl)
	}
}

// recheckAll calls the store about all claims, after pushes may have been lost or the store was not reachable: Keep, or
// Leave for claims that are leaving.
func (c *Client) recheckAll() {
	for _, cl := range c.claims {
		c.keeper.recheck(cl)
	}
	for _, q := range c.queues {
		q.notYet = 0
		q.touch()
	}
}

// pushedGrant believes a pushed grant until the instant of the last acknowledged call. If that has passed, Keep has to
// confirm the grant first. Otherwise a Keep follows soon, but not at once, so that a short hold costs no further call.
func (c *Client) pushedGrant(cl *claim) {
	now := time.Now()
	if cl.until.passed(now) {
		c.keeper.recheck(cl)
		return
	}
	c.hold(cl, now)
	cl.due = min(cl.due, mono(now)+int64(cl.TTL/confirmWithin))
	c.keeper.schedule(cl)
}

// kept handles the store's response to a Keep, which was the sent-th call.
func (c *Client) kept(cl *claim, s store.Status, sent uint64, now time.Time) {
	if cl.phase != held && cl.phase != waiting {
		return // it was over while the call was under way
	}
	cl.calling = false
	if s.Err != nil {
		c.notKept(cl, s.Err)
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
		c.lose(cl, errExpired)
		return
	case s.State == store.Waiting && cl.phase == held && sent > cl.heldAt:
		c.lose(cl, errWithdrawn) // it was granted, and the store lost the grant
		return
	case s.State == store.Waiting && cl.phase == held:
		c.keeper.schedule(cl) // outdated: the Keep was sent before the grant arrived
		return
	}
	cl.until.set(s.Until, cl.end)
	if s.State == store.Held && cl.phase == waiting && !cl.until.passed(now) {
		cl.Ticket = s.Ticket // a store without a queue draws it only now
		c.hold(cl, now)
	}
	c.keeper.keepLater(cl, s, now)
}

// notKept notes that a Keep failed for cl.
func (c *Client) notKept(cl *claim, err error) {
	if cl.fails == 0 {
		c.warn("holdfast: not renewed; retrying", "name", cl.Name, "err", err)
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

// gone handles a response that the store no longer has cl.
func (c *Client) gone(cl *claim) {
	waited := cl.phase == waiting
	c.endLeases(cl, errWithdrawn)
	c.drop(cl)
	if waited {
		cl.queue.claimFailed(cl, errClaimLost)
	}
}

// lose ends a held claim. Its leases end now, and it leaves the store. But if it expired and has a grace, work that its
// holder started may still be under way: then it stays in the store until the holder has unlocked its leases, or the
// grace is over.
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

// unlockedAfterLoss ends the grace of a claim whose lease was lost: its holder has unlocked it.
func (c *Client) unlockedAfterLoss(l *Lease) {
	c.begin()
	defer c.end()
	if c.isClosed() {
		return // Close has released it
	}
	cl := l.claim
	if cl.phase == held && cl.isOver(time.Now()) {
		c.lose(cl, cl.expired()) // the lease noticed it before the keeper
	}
	if !cl.lingers || cl.lease != l && !slices.Contains(cl.more, l) || cl.stillHas(l) {
		return
	}
	c.keeper.enqueue(cl)
}

// release releases a lease: it hands the claim over to the next request of this process, or leaves the store. If the
// store does not confirm that, the keeper repeats it.
func (c *Client) release(ctx context.Context, l *Lease, now time.Time) error {
	cl := l.claim
	c.begin()
	switch {
	case c.isClosed():
		c.end()
		return ErrClosed
	case cl.phase != held, // it has just expired, and the keeper removes it
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

	err := c.leave(ctx, cl)
	if err != nil && !store.Final(err) {
		c.begin()
		if !c.isClosed() {
			c.withdraw(cl)
		}
		c.end()
	}
	return err
}

// fasterBy is the part of a time by which the store's clock may run faster than this machine's.
const fasterBy = 100

// leave removes cl, which is no longer used, from its queue. If its lock has to stay taken for longer, it is detached
// for that time instead: then no process has to live for it.
func (c *Client) leave(ctx context.Context, cl *claim) error {
	if cl.stay != nil {
		if left := time.Duration(cl.stay.until - monoNow()); left > 0 {
			left = min(max(left+left/fasterBy, c.abilities.MinTTL), c.abilities.MaxTTL)
			s, err := c.detacher().Detach(ctx, cl.Claim, cl.stay.as, left)
			if err != nil || s.State == store.Held {
				return err
			}
			// It is not held. If the store lost the grant, it may be waiting.
		}
	}
	return c.store.Leave(ctx, cl.Claim)
}

// forgoStay cancels WithAtLeast for a lease that is released because its caller does not receive it. The claim of a
// lease that was re-entered keeps it, and so does one that is leaving, which does not change.
func (l *Lease) forgoStay() {
	l.client.begin()
	defer l.client.end()
	if cl := l.claim; cl.phase == held && cl.lease == l && len(cl.more) == 0 {
		cl.stay = nil
	}
}

// endLeases ends the leases of cl that have not ended yet.
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

// withdraw passes cl to the keeper, which calls Leave until the store confirms it, or until the claim has expired
// there.
func (c *Client) withdraw(cl *claim) {
	c.retire(cl)
	c.keeper.enqueue(cl)
}

// retire marks cl as leaving.
func (c *Client) retire(cl *claim) {
	cl.phase = leaving
	cl.fails = 0
	cl.giveUp = monoNow() + int64(cl.TTL+cl.Grace)
	c.claims[cl.ID] = cl
	cl.queue.vacate(cl)
	c.owners.disown(cl)
}

// drop forgets cl: the store no longer has it, or a Leave is about to be sent.
func (c *Client) drop(cl *claim) {
	c.keeper.unschedule(cl)
	delete(c.claims, cl.ID)
	cl.phase = over
	cl.queue.vacate(cl)
	c.owners.disown(cl)
}

// isOver reports whether a held claim has expired, by the clocks or because that was reported to a caller. It needs no
// lock, and neither do the next three methods.
func (cl *claim) isOver(now time.Time) bool { return cl.ended.Load() || cl.until.passed(now) }

// expired returns the reason for the loss of a claim that has expired.
func (cl *claim) expired() error {
	fault := cl.fault()
	if fault == nil || errors.Is(fault, ErrLost) {
		return errExpired
	}
	return errors.Join(errNotRenewed, fault)
}

// fault returns the last failure of the store to respond about the claim, or nil if it has responded since.
func (cl *claim) fault() error {
	if err := cl.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// setFault stores the failure of the store to respond about the claim, or nil when it has responded.
func (cl *claim) setFault(err error) {
	if err == nil {
		cl.failed.Store(nil)
		return
	}
	failed := err // a copy, so that nil costs no memory
	cl.failed.Store(&failed)
}

// sharedBy returns whose a shared lease is, for an error.
func (cl *claim) sharedBy() string {
	if cl.Kind == store.Semaphore {
		return "semaphore's"
	}
	return "reader's"
}

// StandAt implements agenda.Item.
func (cl *claim) SetIndex(i int) { cl.pos = i }

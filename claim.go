package holdfast

import (
	"container/heap"
	"errors"
	"fmt"
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

// A claim is a place in a line, as this client knows it. All but until, which has its own care, and ID, Name,
// Ask.Kind and Ask.Limit, which do not change, is guarded by the client's mu.
type claim struct {
	store.Claim
	until instant       // up to when it stands, as the last acknowledged Join or Keep said
	fixed time.Duration // FixedTTL: how long it may be held; 0: as long as it is renewed
	end   *time.Time    // when that is over, once it is held

	phase   phase
	calling bool          // a call about it is under way or about to be
	again   bool          // something came up while a call was under way: ask again after it
	fails   int32         // calls about it that failed in a row
	lease   *Lease        // when held, once its caller has taken it
	first   Lease         // where lease points to at first: one allocation for both
	news    chan struct{} // told when a waiting claim's phase changed
	err     error         // the last failure of the store to answer about it; nil if it answered since
	heldFor uint64        // how many calls of Keep had been made when it was first believed held

	due    int64 // when to speak with the store about it again
	at     int64 // its key in the agenda: due, or until if that comes first
	pos    int   // its index in the agenda, or off
	giveUp int64 // leaving: when the store will have forgotten it by itself
}

// off is the position of a claim that is not on the agenda.
const off = -1

// enrol registers a new claim, so that pushes for it find it.
func (c *Client) enrol(cl *claim) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed() {
		return ErrClosed
	}
	c.claims[cl.ID] = cl
	c.calls.Add(1)
	return nil
}

// hold makes cl held. Whoever waits for it is told.
func (c *Client) hold(cl *claim) {
	cl.phase = held
	cl.heldFor = c.keeper.sent
	if cl.fixed > 0 {
		end := time.Now().Add(cl.fixed)
		cl.end = &end
		cl.until.lower(c.start, end)
	}
	cl.tell()
}

// lose makes cl over because it was lost. Its lease ends now; the store is told to forget it.
func (c *Client) lose(cl *claim, why error) {
	c.endLease(cl, &why)
	c.withdraw(cl)
}

// endLease makes the lease over that cl has, if it has one.
func (c *Client) endLease(cl *claim, why *error) {
	if cl.lease != nil && cl.lease.end(why) {
		c.warn("holdfast: lease lost", "name", cl.Name, "token", cl.lease.token, "err", *why)
	}
}

// drop forgets cl: the store has it no more.
func (c *Client) drop(cl *claim) {
	c.unschedule(cl)
	delete(c.claims, cl.ID)
	cl.phase = over
	cl.tell()
}

// withdraw hands cl to the keeper, which tells the store to take it out until the store has done so, or has
// forgotten it by itself.
func (c *Client) withdraw(cl *claim) {
	cl.phase = leaving
	cl.fails = 0
	cl.giveUp = c.now() + int64(cl.TTL+cl.Grace)
	c.claims[cl.ID] = cl
	c.speak(cl)
	cl.tell()
}

// tell wakes whoever waits for cl. It never blocks: one piece of news is enough to make him look.
func (cl *claim) tell() {
	if cl.news != nil {
		select {
		case cl.news <- struct{}{}:
		default:
		}
	}
}

// setUntil notes up to when cl stands.
func (c *Client) setUntil(cl *claim, t time.Time) {
	cl.until.set(c.start, t)
	if cl.end != nil {
		cl.until.lower(c.start, *cl.end)
	}
}

// onPush takes news from the store. It may be lost, late or early (rule 7 of package store).
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
	c.see(s.Ticket)
	cl := c.claims[id]
	switch {
	case cl == nil:
	case cl.phase == joining:
		c.ask(cl)
	case s.State == store.Gone && (cl.phase == held || cl.phase == waiting):
		c.gone(cl)
	case s.State == store.Held && cl.phase == waiting:
		c.pushedGrant(cl)
	}
}

// pushedGrant believes a push, as far as the last acknowledged call goes. If that is not far enough, Keep has
// to confirm it first. In any case it follows soon: not at once, so that a short hold costs no call more.
func (c *Client) pushedGrant(cl *claim) {
	now := time.Now()
	if cl.until.passed(c.start, now) {
		c.ask(cl)
		return
	}
	c.hold(cl)
	cl.due = min(cl.due, int64(now.Sub(c.start)+cl.TTL/confirmWithin))
	c.schedule(cl)
}

// gone is what the store says of a claim that it has no more.
func (c *Client) gone(cl *claim) {
	c.endLease(cl, &errWithdrawn)
	c.drop(cl)
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
	c.see(s.Ticket)
	cl.fails, cl.err = 0, nil
	switch {
	case s.State == store.Gone:
		c.gone(cl)
		return
	case s.State == store.Waiting && cl.phase == held && sent > cl.heldFor:
		c.lose(cl, errWithdrawn) // it was granted, and the store lost the grant
		return
	case s.State == store.Waiting && cl.phase == held:
		c.schedule(cl) // old news: it was asked before the grant came
		return
	}
	c.setUntil(cl, s.Until)
	if s.State == store.Held && cl.phase == waiting && !cl.until.passed(c.start, now) {
		c.hold(cl)
	}
	c.later(cl, s, now)
}

// unanswered notes that the store did not answer, or that it did not know.
func (c *Client) unanswered(cl *claim, err error) {
	cl.calling = false
	cl.err = err
	cl.fails++
	cl.due = c.now() + int64(backoff(cl.TTL, cl.fails))
	if cl.phase == waiting && store.Final(err) {
		c.withdraw(cl) // its caller finds err
		return
	}
	c.schedule(cl)
}

// ranOut is why a lease is lost whose time passed.
func (cl *claim) ranOut() error {
	if cl.err == nil || errors.Is(cl.err, ErrLost) {
		return errRanOut
	}
	return fmt.Errorf("%w: it could not be renewed: %w", errRanOut, cl.err)
}

// agenda is a heap of claims, the one that is due first on top.
type agenda []*claim

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at < a[j].at }

func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].pos, a[j].pos = i, j
}

// Push is called by package heap only.
func (a *agenda) Push(x any) {
	cl := x.(*claim)
	cl.pos = len(*a)
	*a = append(*a, cl)
}

// Pop is called by package heap only.
func (a *agenda) Pop() any {
	last := len(*a) - 1
	cl := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	cl.pos = off
	return cl
}

var _ heap.Interface = (*agenda)(nil)

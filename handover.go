package holdfast

import (
	"errors"
	"time"
)

// A relay is what one process has in a resource's line: a claim, the calls of Lock that wait for it in the
// process's own queue, and while the claim is held and others wait, a standby claim further back. When a lease is
// given back, the claim passes to the next call without a word to the store, for a bounded number of turns and
// a bounded time. After that it leaves the line, and the standby, which has been moving up meanwhile, takes its
// place. So the process is served as one, first come, first served among processes.
//
// A call that must not take part has a relay of its own, with a queue of one and no standby.
type relay struct {
	lock    *lock   // what the claim was made for
	public  bool    // it is the one that others of this process find
	lost    int32   // how often its place in the line was lost in a row
	outage  *outage // of the Joins that were made for its queue; nil: the last one did not fail
	claim   *claim
	standby *claim
	queue   queue
	notYet  int64 // no standby is sent before this: the last one failed
}

// idleRelays is how many relays are kept that have nothing, for the next who comes.
const idleRelays = 64

// free says whether there is no relay yet, or one that has nothing.
func (r *relay) free() bool { return r == nil || r.claim == nil && r.queue.first == nil }

// suits says whether a call with these settings can wait here and take what is handed over.
func (r *relay) suits(s *settings) bool {
	return !r.free() && r.lock.settings.ttl == s.ttl && r.lock.settings.grace == s.grace
}

// sharesRelay says whether w may wait behind others of its process and be handed their claim. An owner that holds or
// waits for anything else may not: others must see in the store whom they wait for, or a deadlock with it could not
// be found. Where the store has no line, the process's own queue is used also if nothing is handed over: claims that
// all try by themselves would only be in each other's way.
func (w *wish) sharesRelay() bool {
	s := w.lock.settings
	queues := s.turns > 0 || !w.lock.client.abilities.Line
	return queues && w.ask.Exclusive() && !w.try && !w.alone && s.fixed == 0 && w.owner.wantsOneThing()
}

// publish lets others of this process queue behind cl, in r or in a new relay. Its owner is whoever holds it:
// as long as it waits, it does so for nobody in particular.
func (c *Client) publish(w *wish, cl *claim, r *relay) {
	if r == nil {
		r = &relay{public: true}
		c.relays[cl.Name] = r
	}
	r.lock, r.claim, cl.relay = w.lock, cl, r
}

// queueIn puts w in the queue: at the end, or in front if it was there before the others and sent the claim. What
// stands in the queue is a copy, so that a lock that is free costs no memory for waiting.
func (w *wish) queueIn(r *relay, first bool) *wish {
	queued := *w
	queued.news = make(chan struct{})
	queued.relay = r
	if first {
		r.queue.unshift(&queued)
	} else {
		r.queue.push(&queued)
	}
	return &queued
}

// staff makes sure that the relay has the claims that its queue needs, and no others.
func (c *Client) staff(r *relay) {
	switch {
	case c.isClosed():
	case r.queue.first == nil:
		c.dismiss(r)
	case r.claim == nil:
		r.claim = c.send(r)
	case r.public && r.standby == nil && r.claim.phase == held && c.now() >= r.notYet:
		r.standby = c.send(r)
		r.standby.standby = true
	}
}

// dismiss withdraws what waits for nobody, and forgets a relay that has nothing.
func (c *Client) dismiss(r *relay) {
	if cl := r.standby; cl != nil && cl.phase == waiting {
		c.withdraw(cl)
	}
	if cl := r.claim; cl != nil && cl.phase == waiting {
		c.withdraw(cl)
	}
	if r.public && r.claim == nil && len(c.relays) > idleRelays {
		r.public = false
		delete(c.relays, r.lock.name)
	}
}

// send makes a claim for the first in the queue and joins the line with it, in a goroutine of its own: whoever
// waits here must be able to take what another of the process hands over, and a Join may hang.
func (c *Client) send(r *relay) *claim {
	cl := c.newClaim(r.queue.first)
	cl.relay = r
	cl.failed.Store(r.outage.last())
	pause := r.outage.pause(cl.TTL)
	if r.lost > 1 { // a store that loses what it has must not be asked in a hot loop
		pause = max(pause, backoff(time.Second, r.lost-1))
	}
	c.calls.Go(func() {
		if pause > 0 && !c.wantedAfter(cl, pause) {
			return
		}
		standing, err := c.store.Join(c.closed, cl.Claim)
		c.mu.Lock()
		defer c.mu.Unlock()
		if err = c.joined(cl, standing, err); err != nil {
			c.abandon(cl, err)
			return
		}
		if r.outage = nil; cl.phase == held {
			c.deliver(cl)
		} else {
			c.staff(r)
		}
	})
	return cl
}

// wantedAfter waits before a Join that follows a failure, and reports whether anybody still waits for it. If not, cl is
// forgotten: the store has never heard of it.
func (c *Client) wantedAfter(cl *claim, pause time.Duration) bool {
	c.pause(c.closed, pause)
	c.mu.Lock()
	defer c.mu.Unlock()
	r := cl.relay
	if !c.isClosed() && r.queue.first != nil {
		return true
	}
	c.drop(cl)
	r.outage = nil
	c.staff(r)
	return false
}

// abandon is what a claim that failed means for those who wait for it: they get its error. Those who can still be
// handed another claim go on, and so do those who have only lost their place, or whose Join is tried again, in the same
// order, with a new claim.
func (c *Client) abandon(cl *claim, err error) {
	r := cl.relay
	switch {
	case r.public && (errors.Is(err, errPlaceLost) || errors.Is(err, ErrLost)): // the latter: granted, but too late
		r.lost++
	case cl.standby:
		c.sendLater(r, backoff(cl.TTL, 1))
	case r.public && r.claim == nil && r.queue.first != nil && c.tryAgain(&r.outage, cl.Name, err):
		// staff sends another
	case r.claim == nil:
		r.outage = nil
		for w := r.queue.pop(); w != nil; w = r.queue.pop() {
			w.fail(err)
		}
	}
	c.staff(r)
}

// sendLater sees to it that a standby that could not be sent is sent again, but not at once.
func (c *Client) sendLater(r *relay, pause time.Duration) {
	r.notYet = c.now() + int64(pause)
	c.calls.Go(func() {
		c.pause(c.closed, pause)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.staff(r)
	})
}

// vacate takes a claim out of its relay. The standby moves up.
func (c *Client) vacate(cl *claim) {
	switch r := cl.relay; cl {
	case r.standby:
		r.standby = nil
	case r.claim:
		if r.claim, r.standby = r.standby, nil; r.claim != nil {
			r.claim.standby = false
		}
	}
}

// deliver gives a claim that was just granted to the first in its relay's queue.
func (c *Client) deliver(cl *claim) {
	r := cl.relay
	if cl.standby {
		// The store grants the standby only when it has the claim no more, whatever its holder believes.
		c.endLeases(r.claim, errWithdrawn)
		c.drop(r.claim)
	}
	r.lost = 0
	w := r.queue.pop()
	if w == nil {
		c.withdraw(cl)
	} else {
		c.handTo(cl, w, &cl.first)
		w.tell()
	}
	c.staff(r)
}

// handTo makes w the holder of cl, with l as its lease. The store learns who that is by the next Keep.
func (c *Client) handTo(cl *claim, w *wish, l *Lease) {
	if cl.owner != w.owner {
		c.disown(cl)
		c.assign(cl, w.owner)
	}
	cl.Owner = w.shown()
	w.lease = c.lease(w, l, cl)
}

// passOn hands a claim whose lease was given back to the next of this process, if it may, and returns whom: he is to be
// told, best without mu.
func (c *Client) passOn(cl *claim, now time.Time) *wish {
	r := cl.relay
	w := r.queue.first
	if w == nil || !r.public || cl != r.claim || cl.shown || !cl.Exclusive() || !cl.owner.only(cl) || !w.owner.wantsOneThing() {
		return nil
	}
	s := w.lock.settings
	if int(cl.Turn)+1 >= s.turns || now.Sub(c.start)-cl.since >= s.turnsFor || c.isOver(cl, now) {
		return nil
	}
	r.queue.pop()
	cl.Turn++
	c.handTo(cl, w, new(Lease)) // the last holder may still look at its own
	if standby := r.standby; r.queue.first == nil && standby != nil && standby.phase == waiting {
		// Nobody wants it now. Whoever comes back for the lock soon will, so it is not withdrawn at once.
		standby.due = int64(now.Sub(c.start) + s.turnsFor)
		c.schedule(standby)
	}
	if o := c.settings.observer; o != nil {
		o.HandedOver(w.request(), w.lease.token)
	}
	return w
}

// fail ends a wish with an error.
func (w *wish) fail(err error) {
	w.err = err
	w.tell()
}

// tell lets whoever waits for w see what it got.
func (w *wish) tell() { close(w.news) }

// A queue is a list of wishes, in order of arrival.
type queue struct{ first, last *wish }

func (q *queue) push(w *wish) {
	w.queued = true
	w.prev, w.next = q.last, nil
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
}

func (q *queue) unshift(w *wish) {
	w.queued = true
	w.prev, w.next = nil, q.first
	if q.first == nil {
		q.last = w
	} else {
		q.first.prev = w
	}
	q.first = w
}

func (q *queue) remove(w *wish) {
	w.queued = false
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
}

func (q *queue) pop() *wish {
	w := q.first
	if w != nil {
		q.remove(w)
	}
	return w
}

package holdfast

import (
	"errors"
	"time"
)

// A localQueue is what one process has in the store's queue of a lock: a claim, the requests of the process that wait
// for it, and, while the claim is held and requests wait, a standby claim further back. When a lease is unlocked, the
// claim is handed over to the next request without a call of the store, for a bounded number of turns and a bounded
// time. After that the claim leaves the store's queue, and the standby, which has moved up in the meantime, replaces
// it. So the process as a whole is served first come, first served among processes.
//
// A request that must not take part in this has a localQueue of its own, without a standby. A localQueue is guarded by
// the client's mu.
type localQueue struct {
	lock    *lock   // the lock that the claim was made for
	public  bool    // other requests of this process use it too
	touched bool    // end has to settle it
	lost    int32   // how many of its waiting claims were lost in a row
	outage  *outage // of the Joins that were made for its waiters; nil: the last one did not fail
	claim   *claim
	standby *claim
	waiters requests
	notYet  int64 // no standby is sent before this time: the last one failed
}

// idleQueues is how many empty public queues are kept for later requests.
const idleQueues = 64

// free reports whether there is no queue yet, or one without claims and requests.
func (q *localQueue) free() bool { return q == nil || q.claim == nil && q.empty() }

// empty reports whether no request waits here.
func (q *localQueue) empty() bool { return q.waiters.first == nil }

// suits reports whether a request with these settings can wait here and receive a claim that is handed over.
func (q *localQueue) suits(s *settings) bool {
	return !q.free() && q.lock.settings.ttl == s.ttl && q.lock.settings.grace == s.grace
}

// canShare reports whether r may wait behind other requests of its process and receive their claim. If its owner holds
// or waits for anything else, it may not: other clients must see in the store which owner they wait for, or a deadlock
// with it could not be found. If the store has no queue, the process's own queue is used even if nothing is handed
// over: claims that each try by themselves would only obstruct each other.
func (r *request) canShare() bool {
	s := r.lock.settings
	queues := s.turns > 0 || !r.lock.client.abilities.Queue
	return queues && r.demand.Exclusive() && !r.try && !r.alone && s.fixed == 0 && s.atLeast == 0 &&
		r.owner.wantsOneThing()
}

// touch makes end settle q. Every change to q's claims, their phases or its waiters touches it, except handOver.
func (q *localQueue) touch() {
	if !q.touched {
		q.touched = true
		c := q.lock.client
		c.touched = append(c.touched, q)
	}
}

// add puts r in the queue: before next, or at the end if next is nil. It queues and returns a copy, so that a lock that
// is free costs no memory for waiting.
func (q *localQueue) add(r, next *request) *request {
	queued := *r
	queued.news = make(chan struct{})
	queued.queue = q
	q.waiters.insert(&queued, next)
	q.touch()
	return &queued
}

// remove removes a request that has given up.
func (q *localQueue) remove(r *request) {
	q.waiters.remove(r)
	q.touch()
}

// failAll ends all waits with err.
func (q *localQueue) failAll(err error) {
	for r := q.waiters.pop(); r != nil; r = q.waiters.pop() {
		r.err = err
		q.lock.client.wake(r)
	}
}

// vacate removes a claim from the queue. The standby moves up.
func (q *localQueue) vacate(cl *claim) {
	switch cl {
	case q.standby:
		q.standby = nil
		q.touch()
	case q.claim:
		if q.claim, q.standby = q.standby, nil; q.claim != nil {
			q.claim.standby = false
		}
		q.touch()
	}
}

// settle does what follows from a change: the first waiter receives a claim that was granted, and the queue gets the
// claims that it needs.
func (q *localQueue) settle() {
	if q.empty() && q.standby == nil && (q.claim == nil || q.claim.lease != nil) {
		q.forgetIfIdle() // there is nothing to deliver, and no claim too many or too few
		return
	}
	c := q.lock.client
	if c.isClosed() {
		return
	}
	if q.standby != nil && q.standby.phase == held {
		// The store grants the standby only when it no longer has the claim, whatever the claim's holder believes.
		c.endLeases(q.claim, errWithdrawn)
		c.drop(q.claim)
	}
	if cl := q.claim; cl != nil && cl.phase == held && cl.lease == nil {
		q.lost = 0
		if r := q.waiters.pop(); r != nil {
			c.handTo(cl, r, &cl.first)
			c.wake(r)
		} else {
			c.withdraw(cl)
		}
	}
	q.ensureClaims()
}

// ensureClaims ensures that the queue has the claims that its waiters need, and no others.
func (q *localQueue) ensureClaims() {
	switch {
	case q.empty():
		q.dismiss()
	case q.claim == nil:
		q.claim = q.send()
	case q.public && q.standby == nil && q.claim.phase == held && monoNow() >= q.notYet:
		q.standby = q.send()
		q.standby.standby = true
	}
}

// dismiss withdraws claims that wait although no request does.
func (q *localQueue) dismiss() {
	for _, cl := range []*claim{q.standby, q.claim} {
		if cl != nil && cl.phase == waiting {
			q.lock.client.withdraw(cl)
		}
	}
	q.forgetIfIdle()
}

// forgetIfIdle forgets an empty queue if there are many queues.
func (q *localQueue) forgetIfIdle() {
	if c := q.lock.client; q.public && q.claim == nil && len(c.queues) > idleQueues {
		q.public = false
		delete(c.queues, q.lock.name)
	}
}

// send makes a claim for the first waiter and joins the store's queue with it, in a goroutine of its own: a Join may
// hang, and requests that wait here must still be able to receive a claim that is handed over.
func (q *localQueue) send() *claim {
	c := q.lock.client
	cl := c.newClaim(q.waiters.first, q)
	if q.outage != nil {
		cl.setFault(q.outage.err)
	}
	pause := q.outage.pause(cl.TTL)
	if q.lost > 1 { // a store that loses its claims must not be called in a hot loop
		pause = max(pause, backoff(time.Second, q.lost-1))
	}
	c.calls.Go(func() {
		if pause > 0 {
			c.pause(c.closed, pause)
			if !c.stillWanted(cl) {
				return
			}
		}
		status, err := c.store.Join(c.closed, cl.Claim)
		c.begin()
		defer c.end()
		if err = c.joined(cl, status, err); err != nil {
			q.claimFailed(cl, err)
		} else {
			q.outage = nil
		}
	})
	return cl
}

// stillWanted reports whether a request waits for a claim that is about to join after a pause. If not, cl is forgotten:
// it was never sent to the store.
func (c *Client) stillWanted(cl *claim) bool {
	c.begin()
	defer c.end()
	if !c.isClosed() && !cl.queue.empty() {
		return true
	}
	c.drop(cl)
	cl.queue.outage = nil
	return false
}

// claimFailed ends the waits for a claim that has failed and left the queue, with its error. But requests continue to
// wait, in the same order, if another claim can still be handed over to them, if only the claim's position was lost, or
// if a Join is tried again with a new claim.
func (q *localQueue) claimFailed(cl *claim, err error) {
	switch {
	case q.public && (errors.Is(err, errClaimLost) || errors.Is(err, ErrLost)): // the latter: granted, but too late
		q.lost++
	case cl.standby:
		q.sendLater(backoff(cl.TTL, 1))
	case q.public && q.claim == nil && !q.empty() && q.lock.client.tryAgain(&q.outage, cl.Name, err):
		// ensureClaims sends another
	case q.claim == nil:
		q.outage = nil
		q.failAll(err)
	}
}

// sendLater sends another standby after a pause, when one has failed.
func (q *localQueue) sendLater(pause time.Duration) {
	c := q.lock.client
	q.notYet = monoNow() + int64(pause)
	c.calls.Go(func() {
		c.pause(c.closed, pause)
		c.begin()
		q.touch()
		c.end()
	})
}

// handOver passes a claim whose lease was unlocked to the next waiter, and reports whether it did.
func (q *localQueue) handOver(cl *claim, at time.Time) bool {
	c, r, now := q.lock.client, q.waiters.first, mono(at)
	if r == nil || !q.public || cl != q.claim || cl.pinned || !cl.Exclusive() {
		return false
	}
	if !cl.owner.only(cl) || !r.owner.wantsOneThing() {
		return false
	}
	s := r.lock.settings
	if int(cl.Turn)+1 >= s.turns || now-cl.since >= int64(s.turnsFor) || cl.isOver(at) {
		return false
	}
	q.waiters.pop()
	cl.Turn++
	c.handTo(cl, r, new(Lease)) // the last holder may still read its own
	if standby := q.standby; q.empty() && standby != nil && standby.phase == waiting {
		// No request needs the standby now. One that soon requests the lock again will, so it is not withdrawn at once:
		// q is not touched.
		standby.due = now + int64(s.turnsFor)
		c.keeper.schedule(standby)
	}
	if o := c.settings.observer; o != nil {
		o.HandedOver(r.described(), r.lease.token)
	}
	c.wake(r)
	return true
}

// wake makes end notify r, which is no longer in a queue, that it has its lease or an error.
func (c *Client) wake(r *request) { r.next, c.served = c.served, r }

// requests is a list of requests, in order of arrival.
type requests struct{ first, last *request }

// insert inserts r before next, or at the end if next is nil.
func (q *requests) insert(r, next *request) {
	r.queued, r.prev, r.next = true, *q.before(next), next
	*q.after(r.prev), *q.before(next) = r, r
}

// remove removes r, which must be in the list.
func (q *requests) remove(r *request) {
	*q.after(r.prev), *q.before(r.next) = r.next, r.prev
	r.queued, r.prev, r.next = false, nil, nil
}

// pop removes and returns the first request, or returns nil if there is none.
func (q *requests) pop() *request {
	r := q.first
	if r != nil {
		q.remove(r)
	}
	return r
}

// after returns where the list keeps the successor of r, and before where it keeps the predecessor. A nil r stands for
// the ends of the list.
func (q *requests) after(r *request) **request {
	if r == nil {
		return &q.first
	}
	return &r.next
}

// before returns the pointer to the predecessor of r; for nil, to the last request.
func (q *requests) before(r *request) **request {
	if r == nil {
		return &q.last
	}
	return &r.prev
}

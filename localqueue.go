package holdfast

import (
	"errors"
	"time"
)

// A localQueue is what one process has in a resource's line: a claim, the requests that wait for it in the
// process's own queue, and while the claim is held and others wait, a standby claim further back. When a lease is
// given back, the claim passes to the next request without a word to the store, for a bounded number of turns and
// a bounded time. After that it leaves the line, and the standby, which has been moving up meanwhile, takes its
// place. So the process is served as one, first come, first served among processes.
//
// A request that must not take part has a localQueue of its own, for one and without a standby. It is guarded by the
// client's mu.
type localQueue struct {
	lock    *lock   // what the claim was made for
	public  bool    // it is the one that others of this process find
	touched bool    // end has to settle it
	lost    int32   // how often its place in the line was lost in a row
	outage  *outage // of the Joins that were made for its waiters; nil: the last one did not fail
	claim   *claim
	standby *claim
	waiters requests
	notYet  int64 // no standby is sent before this: the last one failed
}

// idleQueues is how many public queues are kept that have nothing, for the next request that comes.
const idleQueues = 64

// free reports whether there is no queue yet, or one that has nothing.
func (q *localQueue) free() bool { return q == nil || q.claim == nil && q.empty() }

// empty reports whether nothing waits here.
func (q *localQueue) empty() bool { return q.waiters.first == nil }

// suits reports whether a request with these settings can wait here and take what is handed over.
func (q *localQueue) suits(s *settings) bool {
	return !q.free() && q.lock.settings.ttl == s.ttl && q.lock.settings.grace == s.grace
}

// canShare reports whether r may wait behind others of its process and be handed their claim. An owner that holds or
// waits for anything else may not: others must see in the store whom they wait for, or a deadlock with it could not
// be found. Where the store has no line, the process's own queue is used also if nothing is handed over: claims that
// all try by themselves would only be in each other's way.
func (r *request) canShare() bool {
	s := r.lock.settings
	queues := s.turns > 0 || !r.lock.client.abilities.Queue
	return queues && r.demand.Exclusive() && !r.try && !r.alone && s.fixed == 0 && r.owner.wantsOneThing()
}

// touch has end settle q. Whatever changes q's claims, their phases or its waiters touches it, but for handOver.
func (q *localQueue) touch() {
	if !q.touched {
		q.touched = true
		c := q.lock.client
		c.touched = append(c.touched, q)
	}
}

// add puts r in the queue: at the end, or in front if it was there before the others and sent the claim. What
// stands in the queue is a copy, so that a lock that is free costs no memory for waiting.
func (q *localQueue) add(r *request, first bool) *request {
	queued := *r
	queued.news = make(chan struct{})
	queued.queue = q
	if first {
		q.waiters.insert(&queued, q.waiters.first)
	} else {
		q.waiters.insert(&queued, nil)
	}
	q.touch()
	return &queued
}

// remove takes out a request that has given up.
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

// vacate takes a claim out of the queue. The standby moves up.
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

// settle does what follows from a change: a claim that was granted goes to the first waiter, and the queue gets the
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
		// The store grants the standby only when it has the claim no more, whatever its holder believes.
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

// ensureClaims makes sure that the queue has the claims that its waiters need, and no others.
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

// dismiss withdraws what waits for nobody.
func (q *localQueue) dismiss() {
	c := q.lock.client
	if cl := q.standby; cl != nil && cl.phase == waiting {
		c.withdraw(cl)
	}
	if cl := q.claim; cl != nil && cl.phase == waiting {
		c.withdraw(cl)
	}
	q.forgetIfIdle()
}

// forgetIfIdle forgets a queue that has nothing, if there are many.
func (q *localQueue) forgetIfIdle() {
	if c := q.lock.client; q.public && q.claim == nil && len(c.queues) > idleQueues {
		q.public = false
		delete(c.queues, q.lock.name)
	}
}

// send makes a claim for the first waiter and joins the line with it, in a goroutine of its own: whoever
// waits here must be able to take what another of the process hands over, and a Join may hang.
func (q *localQueue) send() *claim {
	c := q.lock.client
	cl := c.newClaim(q.waiters.first, q)
	cl.setFault(q.outage.last())
	pause := q.outage.pause(cl.TTL)
	if q.lost > 1 { // a store that loses what it has must not be asked in a hot loop
		pause = max(pause, backoff(time.Second, q.lost-1))
	}
	c.calls.Go(func() {
		if pause > 0 {
			c.pause(c.closed, pause)
			if !c.stillWanted(cl) {
				return
			}
		}
		standing, err := c.store.Join(c.closed, cl.Claim)
		c.begin()
		defer c.end()
		if err = c.joined(cl, standing, err); err != nil {
			q.claimFailed(cl, err)
		} else {
			q.outage = nil
		}
	})
	return cl
}

// stillWanted reports whether anything waits for a claim that is about to join after a pause. If not, cl is forgotten:
// the store has never heard of it.
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

// claimFailed gives the error of a claim, which has left the queue, to those who waited for it. Those who can still be
// handed another claim go on, and so do those who have only lost their place, or whose Join is tried again, in the same
// order, with a new claim.
func (q *localQueue) claimFailed(cl *claim, err error) {
	switch {
	case q.public && (errors.Is(err, errPlaceLost) || errors.Is(err, ErrLost)): // the latter: granted, but too late
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

// sendLater has a standby that could not be sent sent again, but not at once.
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

// handOver passes a claim whose lease was given back to the next waiter, and reports whether it could.
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
	c.handTo(cl, r, new(Lease)) // the last holder may still look at its own
	if standby := q.standby; q.empty() && standby != nil && standby.phase == waiting {
		// Nobody wants it now. Whoever comes back for the lock soon will, so it is not withdrawn at once: q is not touched.
		standby.due = now + int64(s.turnsFor)
		c.keeper.schedule(standby)
	}
	if o := c.settings.observer; o != nil {
		o.HandedOver(r.described(), r.lease.token)
	}
	c.wake(r)
	return true
}

// wake has end tell r, which is in no queue any more, that it has its lease or an error.
func (c *Client) wake(r *request) { r.next, c.served = c.served, r }

// requests is a list of requests, in order of arrival.
type requests struct{ first, last *request }

// insert puts r before another, or at the end if that is nil.
func (q *requests) insert(r, next *request) {
	r.queued, r.prev, r.next = true, *q.before(next), next
	*q.after(r.prev), *q.before(next) = r, r
}

func (q *requests) remove(r *request) {
	*q.after(r.prev), *q.before(r.next) = r.next, r.prev
	r.queued, r.prev, r.next = false, nil, nil
}

func (q *requests) pop() *request {
	r := q.first
	if r != nil {
		q.remove(r)
	}
	return r
}

// after is where the list has what follows r, and before what precedes it. A nil r is the list's own end.
func (q *requests) after(r *request) **request {
	if r == nil {
		return &q.first
	}
	return &r.next
}

func (q *requests) before(r *request) **request {
	if r == nil {
		return &q.last
	}
	return &r.prev
}

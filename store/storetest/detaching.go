package storetest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var detaching = rule{0, "detaching", "A detached claim outlives its client for as long as Detach says, " +
	"is attached by one client at most, and keeps its ticket and units.", []scenario{
	{"a detached claim outlives its client", detach, outlivesItsClient},
	{"the earlier ID is gone", detach, earlierIDIsGone},
	{"attach", detach, attachTakesOver},
	{"late responses", detach, lateTransferResponses},
	{"attached once", detach, attachedOnce},
	{"attached too late", detach, attachedTooLate},
	{"repeated calls", detach, repeatedTransfers},
	{"a detached claim is extended", detach, detachedIsExtended},
	{"late requests", detach, lateTransfers},
	{"a waiter follows", detach | aQueue, waiterFollowsDetached},
	{"units stay", detach | weights, detachedUnitsStay},
	{"nothing is left of a detached claim", detach, nothingLeftOfDetached},
}}

// detacher returns the client's store as a Detacher.
func (c *client) detacher() store.Detacher {
	d, ok := c.Store.(store.Detacher)
	if !ok {
		c.t.fatalf("the store can detach claims, and is not a Detacher")
	}
	return d
}

// heir makes a claim with a new ID, for Detach and Attach. It has p's ticket.
func (p *contender) heir(c *client) *contender {
	heir := c.contend(p.claim.Name, p.claim.Demand)
	heir.claim.Ticket = p.claim.Ticket
	return heir
}

// detachAs calls Detach once.
func (p *contender) detachAs(as *contender, d time.Duration) (store.Status, error) {
	return as.request(p.t.patience(), func(ctx context.Context) (store.Status, error) {
		return p.detacher().Detach(ctx, p.claim, as.claim.ID, d)
	})
}

// detached detaches a held claim and returns it under its new ID.
func (p *contender) detached(d time.Duration) *contender {
	as := p.heir(p.client)
	status, err := p.detachAs(as, d)
	p.t.noError(err, "Detach of %q", p.claim.Name)
	as.demand("Detach", store.Held)
	if status.Ticket != p.claim.Ticket {
		p.t.errorf("the ticket was %d, and is %d when the claim is detached", p.claim.Ticket, status.Ticket)
	}
	if latest := as.sent.Add(d + p.t.stall); status.Until.After(latest) || status.Until.Before(as.sent) {
		p.t.errorf("detached for %v, until %v after the request was sent", d, status.Until.Sub(as.sent))
	}
	return as
}

// attachOnce calls Attach once, which attaches a detached claim as p.
func (p *contender) attachOnce(from *contender) (store.Status, error) {
	return p.request(p.t.patience(), func(ctx context.Context) (store.Status, error) {
		return p.detacher().Attach(ctx, p.claim, from.claim.ID)
	})
}

// attach attaches a detached claim as p, and requires a state.
func (p *contender) attach(from *contender, want store.State) store.Status {
	status, err := p.attachOnce(from)
	p.t.noError(err, "Attach of %q", p.claim.Name)
	p.demand("Attach", want)
	return status
}

// excludes requires that no other client acquires the lock of a detached claim shortly before it expires.
func (p *contender) excludes() {
	rival := p.rival()
	p.t.advance(time.Until(p.until) - p.t.slack)
	rival.excludedBy(p)
}

// excludedBy requires that a Try of p fails, because the claim of holder is held.
func (p *contender) excludedBy(holder *contender) {
	p.claim.Try = true
	if status := p.joinAny(); status.State != store.Gone {
		expired := lapse(time.Now().After(holder.until))
		p.t.fatalf("Join of %q beside its holder: %v%v", p.claim.Name, status.State, expired)
	}
}

// spell is how long claims are detached in these cases: longer than they would live otherwise.
func (t *trial) spell() time.Duration { return min(t.takeover()+2*t.ttl, t.able.MaxTTL) }

// expiry is how long after a Detach for d the claim has expired, at worst.
func (t *trial) expiry(d time.Duration) time.Duration {
	return time.Duration(t.able.TakeoverTTLs)*d + t.able.TakeoverPlus + t.slack
}

// The client dies as soon as it has detached its claim. Its ttl and its session must not matter any more.
func outlivesItsClient(t *trial) {
	holder, _ := t.rivals()
	holder.join(store.Held)
	as := holder.detached(t.spell())
	holder.link.Kill()
	as.excludes()
	t.advance(time.Until(as.sent.Add(t.expiry(t.spell()))))
	holder.rival().try(store.Held)
}

// A Keep and a Leave that were sent before the Detach may arrive after it.
func earlierIDIsGone(t *trial) {
	holder, _ := t.rivals()
	holder.join(store.Held)
	as := holder.detached(t.longTTL())
	holder.keep(store.Gone)
	holder.leave()
	holder.keep(store.Gone)
	holder.rival().try(store.Gone)
	holder.client.contend(holder.claim.Name, holder.claim.Demand).attach(as, store.Held)
}

// The claim is kept by its new client for longer than it was detached.
func attachTakesOver(t *trial) {
	holder, rival := t.rivals()
	next := t.open()
	holder.join(store.Held)
	d := min(2*t.ttl, t.able.MaxTTL) // not the ttl, which counts once it is attached
	as := holder.detached(d)
	heir := as.heir(next)
	heir.until = as.until
	status := heir.attach(as, store.Held)
	if status.Ticket != holder.claim.Ticket {
		t.errorf("the ticket was %d, and is %d when the claim is attached", holder.claim.Ticket, status.Ticket)
	}
	heir.checkUntil()
	holder.link.Kill()
	keepFor(t.expiry(d), heir) // neither that time nor the end of its client matters any more
	rival.excludedBy(heir)
	heir.leave()
	rival.client.mutex(heir.claim.Name).try(store.Held)
}

// The responses to a Detach and to an Attach are delayed for a good part of the claim's time.
func lateTransferResponses(t *trial) {
	holder, _ := t.rivals()
	next := t.open()
	holder.join(store.Held)
	var as *contender
	t.delayed(holder.link.HoldReplies(), t.ttl/6, func() { as = holder.detached(t.ttl) })
	heir := as.heir(next)
	t.delayed(next.link.HoldReplies(), t.ttl/6, func() { heir.attach(as, store.Held) })
	heir.checkUntil()
}

// Several clients attach one claim at the same time.
func attachedOnce(t *trial) {
	holder, _ := t.rivals()
	holder.join(store.Held)
	as := holder.detached(t.longTTL())
	var attached atomic.Int32
	for range 3 {
		c := t.open()
		for range 2 {
			t.async(func() {
				status, err := as.heir(c).attachOnce(as)
				t.noError(err, "Attach beside others")
				if status.State != store.Gone {
					attached.Add(1)
				}
			})
		}
	}
	t.wait()
	if n := attached.Load(); n != 1 {
		t.errorf("%d clients attached one claim", n)
	}
	as.heir(t.open()).attach(as, store.Gone)
}

// A claim that has expired, was released or never existed is not attached.
func attachedTooLate(t *trial) {
	holder, rival := t.rivals()
	holder.join(store.Held)
	as := holder.detached(t.ttl)
	t.advance(t.expiry(t.ttl))
	as.heir(rival.client).attach(as, store.Gone)
	rival.try(store.Held)
	released := rival.detached(t.longTTL())
	released.leave()
	released.heir(t.open()).attach(released, store.Gone)
	next := holder.rival()
	next.try(store.Held)
	released.heir(next.client).attach(released, store.Gone)
	next.keep(store.Held)
}

// A caller whose response was lost repeats the call.
func repeatedTransfers(t *trial) {
	holder, _ := t.rivals()
	holder.lasts().join(store.Held)
	as := holder.detached(t.longTTL())
	status, err := holder.detachAs(as, t.longTTL())
	if err != nil || status.State != store.Held || status.Ticket != holder.claim.Ticket {
		t.errorf("a repeated Detach: %v of ticket %d and %v, want held", status.State, status.Ticket, err)
	}
	heir := as.heir(t.open())
	heir.attach(as, store.Held)
	heir.attach(as, store.Held)
	heir.keep(store.Held)
}

// A detached claim is detached again under its own ID, by a client that knows nothing else of it. A call with a shorter
// time, which may have been overtaken by another one, changes nothing.
func detachedIsExtended(t *trial) {
	holder, rival := t.rivals()
	holder.join(store.Held)
	as := holder.detached(t.ttl)
	other := rival.client.contend(holder.claim.Name, holder.claim.Demand)
	other.claim.ID, other.claim.Ticket = as.claim.ID, as.claim.Ticket
	extend := func(d time.Duration) {
		_, err := other.detachAs(other, d)
		t.noError(err, "Detach of a detached claim")
		other.demand("Detach", store.Held)
	}
	extend(t.spell())
	other.excludes()
	extend(t.longTTL())
	long := other.until
	extend(t.ttl)
	other.until = long
	t.advance(t.expiry(t.ttl))
	holder.rival().excludedBy(other)
	extend(t.ttl)
}

// A Detach and an Attach arrive after the Leave of a caller that has given up on them.
func lateTransfers(t *trial) {
	holder, _ := t.rivals()
	holder.lasts().join(store.Held)
	as := holder.heir(holder.client)
	as.claim.Ticket = 0
	as.leave()
	if status, err := holder.detachAs(as, t.longTTL()); err != nil || status.State != store.Gone {
		t.errorf("Detach after the Leave of its new ID: %v and %v, want gone", status.State, err)
	}
	holder.keep(store.Held)
	as = holder.detached(t.longTTL())
	heir := as.heir(t.open())
	heir.claim.Ticket = 0
	heir.leave()
	heir.attach(as, store.Gone)
	as.heir(t.open()).attach(as, store.Held)
}

// A claim that waits behind a detached one is granted when that is released, also by a client that did not detach it.
func waiterFollowsDetached(t *trial) {
	holder, waiter, other := t.pairAndOther()
	as := holder.detached(t.longTTL())
	waiter.keep(store.Waiting)
	if head := waiter.head(holder.claim.Name); head.State != store.Held || head.Ticket != holder.claim.Ticket {
		t.errorf("the queue begins with ticket %d, %v, and ticket %d is detached", head.Ticket, head.State,
			holder.claim.Ticket)
	}
	stranger := other.client.contend(as.claim.Name, as.claim.Demand)
	stranger.claim.ID, stranger.claim.Ticket = as.claim.ID, as.claim.Ticket
	stranger.leave()
	waiter.succeed()
}

func detachedUnitsStay(t *trial) {
	name := t.name("units")
	holder, one, two := t.open().semaphore(name, 2, 3), t.open().semaphore(name, 1, 3), t.open().semaphore(name, 1, 3)
	holder.join(store.Held)
	as := holder.detached(t.longTTL())
	one.lasts().join(store.Held)
	two.try(store.Gone)
	heir := as.heir(t.open())
	heir.attach(as, store.Held)
	two.client.semaphore(name, 1, 3).try(store.Gone)
}

func nothingLeftOfDetached(t *trial) {
	holder, _ := t.rivals()
	holder.join(store.Held)
	as := holder.detached(t.ttl)
	t.advance(t.expiry(t.ttl))
	as.heir(t.open()).attach(as, store.Gone)
	t.vanishes(holder.claim.Name)
}

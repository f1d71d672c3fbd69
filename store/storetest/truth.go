package storetest

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var truth = rule{7, "truth", "A push can be lost, late or early. Keep returns the true status, " +
	"and Gone is final.", []scenario{
	{"a lost push", 0, lostPush},
	{"a late push", aQueue, latePush},
	{"an early push", aQueue, earlyPush},
	{"a push has the ticket", aQueue, pushHasTicket},
	{"granted while cut off", aQueue, grantedWhileCutOff},
	{"notified after a cut", aQueue, notifiedAfterCut},
	{"erased while held", 0, erasedWhileHeld},
	{"erased while waiting", aQueue, erasedWhileWaiting},
	{"gone is final", aQueue, goneIsFinal},
	{"joining again while held", 0, joiningAgainWhileHeld},
	{"joining again while waiting", aQueue, joiningAgainWhileWaiting},
	{"joining twice at once", aQueue, joiningTwiceAtOnce},
	{"a server that lost its data", 0, serverLostItsData},
}}

func lostPush(t *trial) {
	holder, waiter := t.pair()
	waiter.link.DropPushes(true)
	holder.leave()
	t.settle()
	waiter.succeed()
}

// The push arrives after its claim has left, while another claim holds.
func latePush(t *trial) {
	holder, waiter, next := t.pairAndOther()
	release := waiter.link.HoldPushes()
	holder.leave()
	waiter.keep(store.Held)
	waiter.leave()
	next.join(store.Held)
	release()
	t.settle()
	waiter.keep(store.Gone)
	next.keep(store.Held)
}

// The push overtakes the response to Join, which is still Waiting.
func earlyPush(t *trial) {
	holder, waiter := t.rivals()
	holder.join(store.Held)
	release := waiter.link.HoldReplies()
	joined := t.async(func() { waiter.joinAny() })
	t.settle()
	holder.leave()
	t.settle()
	release()
	<-joined
	waiter.keep(store.Held)
}

// A push that grants may have been forged, and is believed only with the claim's ticket.
func pushHasTicket(t *trial) {
	holder, waiter := t.lastingPair()
	holder.leave()
	waiter.await()
	waiter.mu.Lock()
	defer waiter.mu.Unlock()
	for _, ticket := range waiter.granted {
		if ticket != waiter.claim.Ticket {
			t.errorf("a grant was pushed with ticket %d, and the claim has %d", ticket, waiter.claim.Ticket)
		}
	}
}

func grantedWhileCutOff(t *trial) {
	holder, waiter := t.lastingPair()
	waiter.link.Cut()
	holder.leave()
	t.settle()
	waiter.link.Heal()
	waiter.reach()
	waiter.keep(store.Held)
}

// Pushes may have been lost with the connection. The store reports that when it has reconnected, rather than wait for
// each claim's next Keep.
func notifiedAfterCut(t *trial) {
	holder, waiter := t.lastingPair()
	waiter.link.Cut()
	_, _ = waiter.keepWithin(t.ttl / 6) // so that the store notices
	holder.leave()
	waiter.link.Heal()
	waiter.reach()
	select {
	case <-waiter.pushed:
	case <-time.After(t.ttl/2 + t.late):
		t.errorf("the store is connected again, and does not report that pushes may have been lost")
	}
	waiter.keep(store.Held)
}

// The claim was kept a moment ago, and the session is alive. Neither proves that it still exists.
func erasedWhileHeld(t *trial) {
	holder, waiter := t.pair()
	holder.keep(store.Held)
	t.must("Erase", t.harness.Erase(holder.claim.Name, holder.claim.ID))
	holder.keep(store.Gone)
	waiter.await()
	holder.keep(store.Gone)
}

func erasedWhileWaiting(t *trial) {
	holder, waiter := t.pair()
	t.must("Erase", t.harness.Erase(holder.claim.Name, waiter.claim.ID))
	waiter.keep(store.Gone)
	holder.leave()
	waiter.keep(store.Gone)
	holder.rival().try(store.Held)
}

// A claim stays Gone when the queue is empty, when others use it, and when time passes.
func goneIsFinal(t *trial) {
	holder, waiter, other := t.pairAndOther()
	holder.leave()
	holder.keep(store.Gone)
	waiter.keep(store.Held)
	waiter.leave()
	holder.keep(store.Gone)
	waiter.keep(store.Gone)
	other.join(store.Held)
	t.advance(t.ttl / 2)
	holder.keep(store.Gone)
	waiter.keep(store.Gone)
	other.keep(store.Held)
}

// If the response to Join is lost, Join is repeated. That must not add a second entry.
func joiningAgainWhileHeld(t *trial) {
	holder, next := t.rivals()
	holder.join(store.Held)
	holder.joinAgain()
	holder.leave()
	next.try(store.Held)
}

// joinAgain repeats a Join, and requires that the state and the ticket stay as they were.
func (p *contender) joinAgain() {
	ticket := p.claim.Ticket
	p.join(p.last.State)
	if p.claim.Ticket != ticket {
		p.t.errorf("joining again drew ticket %d, and the first time it was %d", p.claim.Ticket, ticket)
	}
}

func joiningAgainWhileWaiting(t *trial) {
	name := t.name("again")
	holder, waiter, next := t.open().mutex(name), t.open().mutex(name), t.open().mutex(name)
	queued(holder, waiter, next)
	waiter.joinAgain()
	if entries := holder.entries(name); len(entries) != 3 {
		t.errorf("the queue has %d entries for 3 claims, one of which joined twice", len(entries))
	}
	holder.leave()
	waiter.join(store.Held)
	waiter.leave()
	next.keep(store.Held)
}

// The response was late rather than lost, and the two Joins are under way together.
func joiningTwiceAtOnce(t *trial) {
	name := t.name("twice")
	c := t.open()
	c.mutex(name).join(store.Held)
	first := c.mutex(name)
	tickets := make([]uint64, 8)
	for i := range tickets {
		t.async(func() {
			same := c.mutex(name)
			same.claim.ID = first.claim.ID
			tickets[i] = same.joinAny().Ticket
		})
	}
	t.wait()
	if entries := c.entries(name); len(entries) != 2 {
		t.errorf("the queue has %d entries for 2 claims, one of which joined many times", len(entries))
	}
	if tickets = slices.Compact(tickets); len(tickets) != 1 {
		t.errorf("one claim drew the tickets %d", tickets)
	}
}

// A server that lost a claim reports Gone. It must neither confirm the claim by mistake nor restore it.
func serverLostItsData(t *trial) {
	name := t.name("data")
	holder := t.open().mutex(name)
	holder.join(store.Held)
	t.must("Restart without data", t.harness.Restart(false))
	for deadline := time.Now().Add(t.patience()); ; t.settle() {
		status, err := holder.keepOnce()
		if err == nil && status.State != store.Gone {
			t.fatalf("the server lost its data, and Keep says %v", status.State)
		}
		if err == nil || time.Now().After(deadline) {
			return // an error is not a wrong status
		}
	}
}

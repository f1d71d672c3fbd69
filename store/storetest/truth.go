package storetest

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var truth = rule{7, "truth", "A push can be lost, late or early. Keep tells the truth, and Gone is final.", []scenario{
	{"a lost push", 0, lostPush},
	{"a late push", aLine, latePush},
	{"an early push", aLine, earlyPush},
	{"a push has the ticket", aLine, pushHasTicket},
	{"granted while cut off", aLine, grantedWhileCutOff},
	{"told after a cut", aLine, toldAfterCut},
	{"erased while held", 0, erasedWhileHeld},
	{"erased while waiting", aLine, erasedWhileWaiting},
	{"gone is final", aLine, goneIsFinal},
	{"joining again while held", 0, joiningAgainWhileHeld},
	{"joining again while waiting", aLine, joiningAgainWhileWaiting},
	{"joining twice at once", aLine, joiningTwiceAtOnce},
	{"a server that lost its data", 0, serverLostItsData},
}}

func lostPush(t *trial) {
	holder, waiter := t.pair()
	waiter.link.DropPushes(true)
	holder.leave()
	t.settle()
	waiter.succeed()
}

// The push arrives when its claim has long left, and another holds.
func latePush(t *trial) {
	holder, waiter := t.pair()
	next := holder.rival()
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

// The push overtakes the answer to Join, which still says Waiting.
func earlyPush(t *trial) {
	holder, waiter := t.rivals()
	holder.join(store.Held)
	release := waiter.link.HoldReplies()
	joined := t.async(func() { waiter.enrol() })
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

// Pushes may have been lost with the connection. The store says so when it has another, and does not leave it to
// each claim to ask.
func toldAfterCut(t *trial) {
	holder, waiter := t.lastingPair()
	waiter.link.Cut()
	_, _ = waiter.askFor(t.ttl / 6) // so that the store notices
	holder.leave()
	waiter.link.Heal()
	waiter.reach()
	select {
	case <-waiter.pushed:
	case <-time.After(t.ttl/2 + t.late):
		t.errorf("the store is connected again, and does not say that pushes may have been lost")
	}
	waiter.keep(store.Held)
}

// The claim was kept a moment ago, and the session lives. Neither says that it still stands.
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

// Gone stays gone when the line is empty, when others use it, and when time passes.
func goneIsFinal(t *trial) {
	holder, waiter := t.pair()
	other := holder.rival()
	holder.leave()
	holder.keep(store.Gone)
	waiter.keep(store.Held)
	waiter.leave()
	for _, p := range []*contender{holder, waiter} {
		p.keep(store.Gone)
	}
	other.join(store.Held)
	t.advance(t.ttl / 2)
	for _, p := range []*contender{holder, waiter} {
		p.keep(store.Gone)
	}
	other.keep(store.Held)
}

// An answer that was lost is asked for again. That must not take a second place.
func joiningAgainWhileHeld(t *trial) {
	holder, next := t.rivals()
	holder.join(store.Held)
	ticket := holder.claim.Ticket
	holder.join(store.Held)
	if holder.claim.Ticket != ticket {
		t.errorf("joining again gave ticket %d, and the first time it was %d", holder.claim.Ticket, ticket)
	}
	holder.leave()
	next.try(store.Held)
}

func joiningAgainWhileWaiting(t *trial) {
	name := t.name("again")
	a := t.open()
	holder, waiter, next := a.mutex(name), t.open().mutex(name), t.open().mutex(name)
	holder.join(store.Held)
	waiter.join(store.Waiting)
	next.join(store.Waiting)
	ticket := waiter.claim.Ticket
	waiter.join(store.Waiting)
	if waiter.claim.Ticket != ticket {
		t.errorf("joining again gave ticket %d, and the first time it was %d", waiter.claim.Ticket, ticket)
	}
	if places := a.line(name); len(places) != 3 {
		t.errorf("the line has %d places for 3 claims, one of which joined twice", len(places))
	}
	holder.leave()
	waiter.join(store.Held)
	waiter.leave()
	next.keep(store.Held)
}

// The answer was late rather than lost, and the two Joins are under way together.
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
			tickets[i] = same.enrol().Ticket
		})
	}
	t.wait()
	if places := c.line(name); len(places) != 2 {
		t.errorf("the line has %d places for 2 claims, one of which joined many times", len(places))
	}
	if tickets = slices.Compact(tickets); len(tickets) != 1 {
		t.errorf("one claim was given the tickets %d", tickets)
	}
}

// A server that forgot a claim says so. It must not confirm it by mistake, nor put it back.
func serverLostItsData(t *trial) {
	name := t.name("data")
	holder := t.open().mutex(name)
	holder.join(store.Held)
	t.must("Restart without data", t.harness.Restart(false))
	for deadline := time.Now().Add(t.patience()); ; t.settle() {
		standing, err := holder.ask()
		if err == nil && standing.State != store.Gone {
			t.fatalf("the server lost its data, and Keep says %v", standing.State)
		}
		if err == nil || time.Now().After(deadline) {
			return // a server that refuses to answer tells no lie
		}
	}
}

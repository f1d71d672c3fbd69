package storetest

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var lifetime = rule{4, "time", "A claim that is not kept for its ttl, by the store's clock, expires, " +
	"and the next claims that fit are granted.", []scenario{
	{"a dead holder and a waiter", 0, deadHolderWithWaiter},
	{"a dead holder alone", 0, deadHolderAlone},
	{"a dead waiter is skipped", aQueue, deadWaiterIsSkipped},
	{"a dead reader", aQueue | sharing, deadReader},
	{"a late keep", 0, lateKeep},
	{"a late keep lands", ownTTLs, lateKeepLands},
	{"kept for long", 0, keptForLong},
	{"kept alone", ownTTLs, keptAlone},
	{"a short ttl beside a long one", ownTTLs, shortBesideLong},
	{"grace", someGrace, graceKeepsTheEntry},
}}

// The waiter joins a little later than the holder, so that none of its regular Keeps coincides with the takeover: only
// a push or RecheckAt can make it notice in time.
func deadHolderWithWaiter(t *trial) {
	holder, waiter := t.rivals()
	holder.join(store.Held)
	t.advance(t.ttl / 6)
	waiter.join(store.Waiting)
	holder.link.Kill()
	alive, least := holder.sent, t.ttl-t.slack
	if t.able.SessionTTL > 0 {
		alive, least = time.Now(), t.ttl/2 // the session kept itself alive until a third of its ttl ago, or less
	}
	waiter.await()
	switch after := time.Since(alive); {
	case after < least:
		t.errorf("the waiter was granted %v after the holder's last request, and the ttl is %v", after, t.ttl)
	case after > t.takeover()+t.late:
		t.errorf("the waiter was granted %v after the holder's last request, and the store promises %v",
			after, t.takeover())
	}
}

// Without a waiter, no call may have read the queue. Every operation first removes expired claims.
func deadHolderAlone(t *trial) {
	a, b := t.open(), t.open()
	joined, listed := a.mutex(t.name("joined")), a.mutex(t.name("listed"))
	lined, broken := a.mutex(t.name("lined")), a.mutex(t.name("broken"))
	for _, p := range []*contender{joined, listed, lined, broken} {
		p.join(store.Held)
	}
	a.link.Kill()
	t.advance(t.takeover())
	b.mutex(joined.claim.Name).try(store.Held)
	if !t.able.Queue {
		return
	}
	if entries := b.entries(lined.claim.Name); len(entries) > 0 {
		t.errorf("the queue still shows a claim that expired %v ago", -entries[0].Left)
	}
	if slices.Contains(b.list(t.mark), listed.claim.Name) {
		t.errorf("Names still shows a name whose only claim has expired")
	}
	t.wantError("Break of an expired claim", b.breakTicket(broken.claim.Name, broken.claim.Ticket), store.ErrNotHeld)
}

func deadWaiterIsSkipped(t *trial) {
	holder, dead, next := t.trio()
	dead.link.Kill()
	keepFor(t.takeover(), holder, next)
	holder.leave()
	next.keep(store.Held)
}

// When a dead reader expires, only its own unit is released.
func deadReader(t *trial) {
	name := t.name("reader")
	dead, reader, writer := t.open().reader(name), t.open().reader(name), t.open().mutex(name)
	dead.join(store.Held)
	reader.join(store.Held)
	writer.join(store.Waiting)
	dead.link.Kill()
	keepFor(t.takeover(), reader, writer)
	reader.leave()
	writer.keep(store.Held)
}

// A client that returns late must not find its claim, even if no other client claimed the name.
func lateKeep(t *trial) {
	late, next := t.rivals()
	late.join(store.Held)
	late.link.Cut()
	t.advance(t.takeover())
	late.link.Heal()
	late.reach()
	late.keep(store.Gone)
	next.try(store.Held)
}

// A Keep that was sent in time and arrives late is late.
func lateKeepLands(t *trial) {
	late, next := t.rivals()
	late.join(store.Held)
	t.advance(t.ttl / 2)
	release := late.link.HoldRequests()
	kept := t.async(func() { late.keep(store.Gone) })
	t.advance(t.takeover())
	next.enter()
	release()
	<-kept
	next.keep(store.Held)
}

func keptForLong(t *trial) {
	holder, waiter := t.pair()
	ticket := holder.claim.Ticket
	keepFor(3*t.ttl, holder, waiter)
	if holder.claim.Ticket != ticket {
		t.errorf("the ticket of a claim that was kept changed from %d to %d", ticket, holder.claim.Ticket)
	}
	holder.leave()
	waiter.succeed()
}

// A live client keeps only the claims that it passes to Keep.
func keptAlone(t *trial) {
	a, b := t.open(), t.open()
	kept, forgotten := a.mutex(t.name("kept")), a.mutex(t.name("forgotten"))
	kept.join(store.Held)
	forgotten.join(store.Held)
	keepFor(t.takeover(), kept)
	b.mutex(forgotten.claim.Name).try(store.Held)
	forgotten.keep(store.Gone)
}

// A queue has no ttl as a whole: the ttl of the last claim must not decide when the first expires.
func shortBesideLong(t *trial) {
	long, short := t.rivals()
	long.claim.TTL = 4 * t.ttl
	queued(long, short)
	short.link.Kill()
	t.advance(2 * t.ttl)
	long.keep(store.Held)
	long.rival().try(store.Gone)
}

// The owner believes in its claim for the ttl; the store keeps the claim for the grace longer.
func graceKeepsTheEntry(t *trial) {
	holder, waiter := t.rivals()
	holder.claim.Grace = t.ttl
	holder.join(store.Held)
	t.advance(t.ttl / 6)
	waiter.join(store.Waiting)
	holder.keep(store.Held) // Keep prolongs the grace too
	t.advance(t.ttl / 6)
	holder.link.Kill()
	waiter.await()
	switch after := time.Since(holder.sent); {
	case after < 2*t.ttl-t.slack:
		t.errorf("the waiter was granted after %v, and ttl and grace are %v", after, 2*t.ttl)
	case after > t.ttl+t.takeover()+t.late:
		t.errorf("the waiter was granted after %v, and the store promises %v", after, t.ttl+t.takeover())
	}
	if believed := holder.until.Sub(holder.sent); believed > t.ttl+t.slack {
		t.errorf("Until counts the grace: it is %v after the Keep was sent", believed)
	}
}

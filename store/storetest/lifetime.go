package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var lifetime = rule{4, "time", "A claim that is not kept for its ttl, by the store's clock, is out, " +
	"and whoever now fits is granted.", []scenario{
	{"a dead holder and a waiter", 0, deadHolderWithWaiter},
	{"a dead holder alone", 0, deadHolderAlone},
	{"a dead waiter is skipped", aLine, deadWaiterIsSkipped},
	{"a dead reader", aLine | sharing, deadReader},
	{"a late keep", 0, lateKeep},
	{"a late keep lands", ownTTLs, lateKeepLands},
	{"kept for long", 0, keptForLong},
	{"kept alone", ownTTLs, keptAlone},
	{"a short ttl beside a long one", ownTTLs, shortBesideLong},
	{"grace", someGrace, graceKeepsThePlace},
}}

// The waiter joins a little later than the holder, so that what it asks by itself never falls on the moment of
// the takeover: only a push or RecheckAt can tell it in time.
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
		t.errorf("the waiter was granted %v after the holder's last sign of life, and the ttl is %v", after, t.ttl)
	case after > t.takeover()+t.late:
		t.errorf("the waiter was granted %v after the holder's last sign of life, and the store promises %v", after, t.takeover())
	}
}

// Where nobody waits, nobody may have looked. Every operation first removes what is out.
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
	if places := b.line(lined.claim.Name); len(places) > 0 {
		t.errorf("the line still shows a claim that was out %v ago", -places[0].Left)
	}
	if slices.Contains(b.list(t.mark), listed.claim.Name) {
		t.errorf("Names still shows a name whose only claim is out")
	}
	if err := b.breakTicket(broken.claim.Name, broken.claim.Ticket); !errors.Is(err, store.ErrNotHeld) {
		t.errorf("Break of a claim that is out: %v, want %v", err, store.ErrNotHeld)
	}
}

func deadWaiterIsSkipped(t *trial) {
	holder, dead, next := t.trio()
	dead.link.Kill()
	keepFor(t.takeover(), holder, next)
	holder.leave()
	next.keep(store.Held)
}

// A dead reader gives back its unit and no more than that.
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

// Who comes back late must not find the place again, even if nobody else wanted it.
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

// A Keep that was sent in time and lands late is late.
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

// A client that lives keeps only what it says that it keeps.
func keptAlone(t *trial) {
	a, b := t.open(), t.open()
	kept, forgotten := a.mutex(t.name("kept")), a.mutex(t.name("forgotten"))
	kept.join(store.Held)
	forgotten.join(store.Held)
	keepFor(t.takeover(), kept)
	b.mutex(forgotten.claim.Name).try(store.Held)
	forgotten.keep(store.Gone)
}

// A line as a whole has no ttl: the last to come must not decide when the first is out.
func shortBesideLong(t *trial) {
	long, short := t.rivals()
	long.claim.TTL = 4 * t.ttl
	long.join(store.Held)
	short.join(store.Waiting)
	short.link.Kill()
	t.advance(2 * t.ttl)
	long.keep(store.Held)
	long.rival().try(store.Gone)
}

// The owner believes in its ttl; the place is kept for its grace longer.
func graceKeepsThePlace(t *trial) {
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

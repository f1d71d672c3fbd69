package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// What the contract requires beyond its numbered rules.
var methods = rule{0, "methods", "Each method of a store does what its comment in store.Store says.", []scenario{
	{"abilities", 0, abilities},
	{"try", 0, tryTakenAndFree},
	{"try among readers", aQueue | sharing, tryAmongReaders},
	{"mismatch", weights, mismatch},
	{"break a holder", aQueue, breakHolder},
	{"break a waiter", aQueue, breakWaiter},
	{"break an unknown ticket", aQueue, breakUnknownTicket},
	{"queue", aQueue | sharing, queueShowsEntries},
	{"queue shows times", aQueue, queueShowsTimes},
	{"an empty queue", aQueue, emptyQueue},
	{"keep carries news", aQueue, keepCarriesNews},
	{"keep in batches", aQueue, keepInBatches},
	{"keep a large batch", 0, keepLargeBatch},
	{"a batch is the caller's", aQueue | sharing, batchIsTheCallers},
	{"a release wakes the next", 0, releaseWakes},
	{"a release wakes no others", aQueue | sharing | exactWake, releaseWakesNoOthers},
}}

func abilities(t *trial) {
	a, b, tenant := t.open().Abilities(), t.open().Abilities(), t.openAt(t.mark).Abilities()
	switch {
	case a.Store == "":
		t.errorf("the store has no name")
	case a.Identity == "" || a.Identity != b.Identity:
		t.errorf("two clients of one store see the identities %q and %q", a.Identity, b.Identity)
	case a.Identity == tenant.Identity:
		t.errorf("two tenants see the same identity %q, and not the same queues", a.Identity)
	case a.MinTTL <= 0 || a.MinTTL > a.MaxTTL:
		t.errorf("a ttl is from %v to %v", a.MinTTL, a.MaxTTL)
	case a.SessionTTL != 0 && (a.SessionTTL < a.MinTTL || a.SessionTTL > a.MaxTTL):
		t.errorf("the session's ttl is %v, and a ttl is from %v to %v", a.SessionTTL, a.MinTTL, a.MaxTTL)
	case a.TakeoverTTLs < 1 || a.TakeoverPlus < 0:
		t.errorf("a takeover takes %d ttls and %v", a.TakeoverTTLs, a.TakeoverPlus)
	}
}

func tryTakenAndFree(t *trial) {
	name := t.name("try")
	holder, other := t.open().mutex(name), t.open()
	holder.try(store.Held)
	refused := other.mutex(name)
	status := refused.try(store.Gone)
	if h := status.Holder; h != nil && (h.ID != holder.claim.ID || h.State != store.Held) {
		t.errorf("a refused Try reports %v as the holder (%v), and it is %v", h.ID, h.State, holder.claim.ID)
	}
	holder.keep(store.Held)
	holder.leave()
	refused.keep(store.Gone) // it is not in the queue
	other.mutex(name).try(store.Held)
}

func tryAmongReaders(t *trial) {
	name := t.name("readers")
	a, b := t.open(), t.open()
	first, second, writer := a.reader(name), b.reader(name), b.mutex(name)
	first.try(store.Held)
	second.try(store.Held)
	writer.try(store.Gone)
	a.reader(name).try(store.Held) // a refused writer blocks no claim
}

func mismatch(t *trial) {
	name := t.name("mismatch")
	a, b := t.open(), t.open()
	refused := func(p *contender, inUse store.Demand) {
		status, err := p.attempt()
		if !errors.Is(err, store.ErrMismatch) || !store.Final(err) {
			t.errorf("Join of another kind or limit: %v and %v, want %v", status.State, err, store.ErrMismatch)
		}
		said, ok := errors.AsType[*store.MismatchError](err)
		if !ok || said.InUse.Kind != inUse.Kind || said.InUse.Limit != inUse.Limit {
			t.errorf("Join of another kind or limit: %v, and the name is in use with %+v", err, inUse)
		}
		p.keep(store.Gone)
	}
	lock := a.reader(name)
	lock.join(store.Held)
	refused(b.semaphore(name, 1, store.MaxReaders), lock.claim.Demand)
	lock.leave()

	three := b.semaphore(name, 1, 3)
	three.try(store.Held)
	refused(a.semaphore(name, 1, 4), three.claim.Demand)
	refused(a.mutex(name), three.claim.Demand)
	a.semaphore(name, 2, 3).try(store.Held) // nothing blocks it
}

func keepInBatches(t *trial) {
	c := t.open()
	holder, waiter, left := c.mutex(t.name("taken")), c.mutex(t.name("taken")), c.mutex(t.name("left"))
	other := c.mutex(t.name("other"))
	queued(holder, waiter)
	left.join(store.Held)
	left.leave()
	other.join(store.Held)
	batch := []*contender{left, waiter, other, holder}
	want := []store.State{store.Gone, store.Waiting, store.Held, store.Held}
	ctx, cancel := t.context()
	defer cancel()
	claims := make([]store.Claim, len(batch))
	for i, p := range batch {
		claims[i] = p.claim
	}
	statuses, err := c.Keep(ctx, claims)
	if err != nil || len(statuses) != len(batch) {
		t.fatalf("Keep of %d claims: %v and %d statuses", len(batch), err, len(statuses))
	}
	for i, s := range statuses {
		if s.Err != nil || s.State != want[i] {
			t.errorf("claim %d of a batch: %v and %v, want %v", i, s.State, s.Err, want[i])
		}
		if s.State != store.Gone && s.Ticket != claims[i].Ticket {
			t.errorf("claim %d of a batch has ticket %d, want %d", i, s.Ticket, claims[i].Ticket)
		}
	}
	if _, err := c.Keep(ctx, nil); err != nil {
		t.errorf("Keep of nothing: %v", err)
	}
}

// A client keeps all its claims in one call, however many they are. Statements, scripts and transactions have limits.
func keepLargeBatch(t *trial) {
	c := t.open()
	claims := make([]store.Claim, t.many)
	for i := range claims {
		p := c.mutex(t.name(fmt.Sprint(i)))
		p.claim.TTL = t.longTTL()
		p.join(store.Held)
		claims[i] = p.claim
	}
	ctx, cancel := t.context()
	defer cancel()
	statuses, err := c.Keep(ctx, claims)
	if err != nil || len(statuses) != len(claims) {
		t.fatalf("Keep of %d claims: %v and %d statuses", len(claims), err, len(statuses))
	}
	for i, s := range statuses {
		if s.Err != nil || s.State != store.Held || s.Ticket != claims[i].Ticket {
			t.fatalf("claim %d of %d in a batch: %v and %v, want held", i, len(claims), s.State, s.Err)
		}
	}
}

// When Keep has returned, the caller may overwrite the slice of claims. A request that is still under way must not read
// it then.
func batchIsTheCallers(t *trial) {
	c := t.open()
	holder, other := c.mutex(t.name("mine")).lasts(), c.mutex(t.name("other")).lasts()
	holder.join(store.Held)
	other.join(store.Held)
	release := c.link.HoldRequests()
	ctx, cancel := context.WithTimeout(context.Background(), t.ttl/4)
	defer cancel()
	batch := []store.Claim{holder.claim}
	if _, err := c.Keep(ctx, batch); err == nil {
		t.errorf("Keep whose request did not arrive returned no error")
	}
	batch[0] = other.claim
	batch[0].Units = 1
	release()
	t.settle()
	holder.keep(store.Held)
	t.open().reader(other.claim.Name).try(store.Gone) // it is still a writer's
}

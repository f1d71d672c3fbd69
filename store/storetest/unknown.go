package storetest

import (
	"context"

	"github.com/holdfast-go/holdfast/store"
)

var unknown = rule{8, "unknown outcomes", "A Join that timed out may still arrive, even after its Leave; " +
	"a caller that got an error will hold nothing.", []scenario{
	{"a Join lands after its Leave", 0, joinLandsAfterLeave},
	{"the response to Join is lost", 0, responseToJoinIsLost},
	{"the response to Join is lost while it waits", aQueue, responseToJoinIsLostWhileWaiting},
	{"the response to Leave is lost", 0, responseToLeaveIsLost},
	{"a wait is abandoned", aQueue, waitIsGivenUp},
	{"a context that was done before", 0, contextThatWasOver},
	{"a final error joins nothing", aQueue, finalErrorJoinsNothing},
}}

// giveUp joins with a context that ends before the response arrives.
func (p *contender) giveUp() {
	ctx, cancel := context.WithTimeout(context.Background(), p.t.ttl/4)
	defer cancel()
	status, err := p.Join(ctx, p.claim)
	if err == nil {
		p.t.fatalf("Join whose answer never came: %v", status.State)
	}
}

// The Leave takes another route than the Join, and overtakes it. A store with sessions has no tombstones: there the
// claim's own client cleans up.
func joinLandsAfterLeave(t *trial) {
	name := t.name("overtaken")
	a, b := t.open(), t.open()
	ghost := a.mutex(name)
	release := a.link.HoldRequests()
	ghost.giveUp()
	if t.able.SessionTTL == 0 {
		farewell := b.mutex(name)
		farewell.claim = ghost.claim
		farewell.leave()
		t.advance(t.ttl / 2)
	}
	release()
	if t.able.SessionTTL > 0 {
		ghost.leave()
	}
	t.settle()
	b.mutex(name).try(store.Held)
	ghost.keep(store.Gone)
}

// The claim is in the queue, and its client does not know.
func responseToJoinIsLost(t *trial) {
	ghost := t.open().mutex(t.name("answer"))
	release := ghost.link.HoldReplies()
	ghost.giveUp()
	release()
	ghost.leave()
	ghost.rival().try(store.Held)
	ghost.keep(store.Gone)
}

func responseToJoinIsLostWhileWaiting(t *trial) {
	name := t.name("answer")
	holder, ghost, next := t.open().mutex(name).lasts(), t.open().mutex(name), t.open().mutex(name).lasts()
	holder.join(store.Held)
	release := ghost.link.HoldReplies()
	ghost.giveUp()
	ghost.link.Cut() // the response is lost for good, but the session is not
	release()
	ghost.link.Heal()
	next.join(store.Waiting)
	ghost.reach()
	ghost.leave()
	holder.leave()
	next.keep(store.Held)
}

// A client that does not know whether its Leave succeeded repeats it.
func responseToLeaveIsLost(t *trial) {
	holder, next := t.lastingPair()
	release := holder.link.HoldReplies()
	ctx, cancel := context.WithTimeout(context.Background(), t.ttl/4)
	defer cancel()
	if err := holder.Leave(ctx, holder.claim); err == nil {
		t.errorf("Leave without a response returned no error")
	}
	release()
	holder.leave()
	next.succeed()
}

func waitIsGivenUp(t *trial) {
	holder, quitter, next := t.trio()
	quitter.leave()
	next.keep(store.Waiting)
	holder.leave()
	next.keep(store.Held)
	quitter.keep(store.Gone)
}

func contextThatWasOver(t *trial) {
	p := t.open().mutex(t.name("over"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := p.Join(ctx, p.claim)
	t.wantError("Join with a context that was done", err, context.Canceled)
	p.leave()
	p.rival().try(store.Held)
}

// After a final error no client calls Leave.
func finalErrorJoinsNothing(t *trial) {
	name := t.name("nothing")
	a, b := t.open(), t.open()
	holder := a.mutex(name)
	holder.join(store.Held)
	mad := b.mutex(name)
	mad.claim.Floor = store.MaxTicket
	if _, err := mad.attempt(); !store.Final(err) {
		t.fatalf("Join with the greatest ticket as its floor: %v, want a final error", err)
	}
	if entries := a.entries(name); len(entries) != 1 {
		t.errorf("the queue has %d entries after a Join that failed, want 1", len(entries))
	}
	mad.keep(store.Gone)
	holder.leave()
	a.mutex(name).try(store.Held)
}

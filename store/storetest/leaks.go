package storetest

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var leaks = rule{9, "nothing leaks", "When the last claim of a name is gone and the ttl has passed, " +
	"the store holds no state for that name.", []scenario{
	{"left", 0, leavesNothing},
	{"waited and left", aQueue, waitersLeaveNothing},
	{"expired", 0, deadLeaveNothing},
	{"a tombstone", 0, tombstoneVanishes},
	{"broken", aQueue, brokenLeaveNothing},
	{"refused", 0, refusedLeaveNothing},
}}

// vanishes waits until the store holds nothing for these names.
func (t *trial) vanishes(names ...string) {
	deadline := time.Now().Add(t.takeover() + t.ttl)
	for _, name := range names {
		for {
			n, err := t.harness.Residue(name)
			t.must("Residue", err)
			if n == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.fatalf("%q is gone for more than %v, and the store still holds %d things for it",
					name, t.takeover(), n)
			}
			t.advance(t.ttl / 4)
		}
	}
}

func leavesNothing(t *trial) {
	c := t.open()
	var names []string
	for i := range 20 {
		p := c.mutex(t.name(fmt.Sprint("left", i)))
		p.join(store.Held)
		p.keep(store.Held)
		p.leave()
		p.leave()
		names = append(names, p.claim.Name)
	}
	t.vanishes(names...)
}

func waitersLeaveNothing(t *trial) {
	name := t.name("waited")
	a, b := t.open(), t.open()
	holder, waiter, quitter := a.mutex(name), b.mutex(name), a.mutex(name)
	queued(holder, waiter, quitter)
	if n, err := t.harness.Residue(name); err == nil && n == 0 {
		t.fatalf("the harness counts nothing for a queue of three")
	}
	quitter.leave()
	holder.leave()
	waiter.keep(store.Held)
	waiter.leave()
	t.vanishes(name)
}

func deadLeaveNothing(t *trial) {
	c := t.open()
	var names []string
	for i := range 20 {
		p := c.mutex(t.name(fmt.Sprint("dead", i)))
		queued(p, c.mutex(p.claim.Name))
		names = append(names, p.claim.Name)
	}
	c.link.Kill()
	t.vanishes(names...)
}

func tombstoneVanishes(t *trial) {
	p := t.open().mutex(t.name("tombstone"))
	p.leave()
	p.keep(store.Gone)
	t.vanishes(p.claim.Name)
}

func brokenLeaveNothing(t *trial) {
	holder, waiter := t.pair()
	for _, p := range []*contender{waiter, holder} {
		t.noError(p.breakTicket(holder.claim.Name, p.claim.Ticket), "Break")
	}
	holder.keep(store.Gone)
	t.vanishes(holder.claim.Name)
}

// A claim that was refused leaves nothing either.
func refusedLeaveNothing(t *trial) {
	name := t.name("refused")
	a, b := t.open(), t.open()
	holder := a.mutex(name)
	holder.join(store.Held)
	b.mutex(name).try(store.Gone)
	mad := b.mutex(name)
	mad.claim.Floor = store.MaxTicket
	_, _ = mad.attempt() // its failure is the subject of other rules
	if t.able.Shared {
		_, _ = b.semaphore(name, 1, 2).attempt()
	}
	holder.leave()
	t.vanishes(name)
}

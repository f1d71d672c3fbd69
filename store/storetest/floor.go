package storetest

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var floor = rule{3, "floor", "A ticket is greater than the floor its Join carried, or the error is final; " +
	"an absurd floor is refused.", []scenario{
	{"above the floor", 0, aboveTheFloor},
	{"absurd floors", 0, absurdFloors},
	{"restart with data", 0, func(t *trial) { ticketsOverRestart(t, true, store.SurvivesRestart) }},
	{"restart without data", 0, func(t *trial) { ticketsOverRestart(t, false, store.SurvivesDataLoss) }},
}}

func aboveTheFloor(t *trial) {
	name := t.name("floor")
	a, b := t.open(), t.open()
	first := a.mutex(name)
	first.join(store.Held)
	first.leave()
	seen := first.claim.Ticket + 1000
	if !joinsAbove(a.mutex(name), seen) {
		return
	}
	// Another client's ticket must not be below it either: a fence may have seen it.
	other := b.mutex(name)
	other.join(store.Held)
	if other.claim.Ticket <= seen {
		t.errorf("ticket %d was drawn by one client after another had a floor of %d", other.claim.Ticket, seen)
	}
}

// joinsAbove joins with a floor and leaves again. It reports whether the store could.
func joinsAbove(p *contender, seen uint64) bool {
	p.claim.Floor = seen
	_, err := p.attempt()
	switch {
	case errors.Is(err, store.ErrFloor) && store.Final(err):
		return false
	case err != nil:
		p.t.fatalf("Join with floor %d: %v", seen, err)
	}
	p.await()
	if p.claim.Ticket <= seen {
		p.t.errorf("ticket %d was drawn for a floor of %d", p.claim.Ticket, seen)
	}
	p.leave()
	return true
}

// One invalid client must not push the tickets of all clients to the end of their range.
func absurdFloors(t *trial) {
	name := t.name("absurd")
	a, b := t.open(), t.open()
	ahead := uint64(time.Now().Add(2 * store.FloorAhead).UnixMicro())
	for _, absurd := range []uint64{ahead, store.MaxTicket, store.MaxTicket + 1, 1 << 63} {
		p := a.mutex(name)
		p.claim.Floor = absurd
		status, err := p.attempt()
		if !errors.Is(err, store.ErrFloor) || !store.Final(err) {
			t.fatalf("Join with floor %d: ticket %d and error %v, want %v", absurd, status.Ticket, err, store.ErrFloor)
		}
	}
	next := b.mutex(name)
	next.join(store.Held) // a final error means that nothing was joined
	if next.claim.Ticket >= ahead {
		t.errorf("ticket %d was drawn after a floor of %d was refused", next.claim.Ticket, ahead)
	}
}

// A client that has seen a ticket never gets a smaller one. Whether others may depends on the store's abilities.
func ticketsOverRestart(t *trial, keepData bool, survival store.Survival) {
	name := t.name("restart")
	before := t.open().mutex(name)
	before.join(store.Held)
	before.leave()
	t.must("Restart", t.harness.Restart(keepData))
	if t.able.Tokens.Has(survival) {
		fresh := t.open().mutex(name)
		fresh.reach()
		fresh.enter()
		if fresh.claim.Ticket <= before.claim.Ticket {
			t.errorf("ticket %d was drawn after a restart, and %d before it; by its abilities, tickets survive this",
				fresh.claim.Ticket, before.claim.Ticket)
		}
		fresh.leave()
	}
	before.reach()
	joinsAbove(before.mutex(name), before.claim.Ticket)
}

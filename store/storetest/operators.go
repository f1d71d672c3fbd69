package storetest

import (
	"reflect"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Cases about what operators use: Break and Queue.

func breakHolder(t *trial) {
	holder, waiter, operator := t.pairAndOther()
	t.noError(operator.breakTicket(holder.claim.Name, holder.claim.Ticket), "Break of a holder")
	holder.keep(store.Gone)
	waiter.keep(store.Held)
}

func breakWaiter(t *trial) {
	name := t.name("break")
	holder, waiter, next, operator := t.open().mutex(name), t.open().mutex(name), t.open().mutex(name), t.open()
	queued(holder, waiter, next)
	t.noError(operator.breakTicket(name, waiter.claim.Ticket), "Break of a waiter")
	waiter.keep(store.Gone)
	holder.keep(store.Held)
	holder.leave()
	next.keep(store.Held)
}

func breakUnknownTicket(t *trial) {
	name := t.name("break")
	holder, operator := t.open().mutex(name), t.open()
	t.wantError("Break in an empty queue", operator.breakTicket(name, 1), store.ErrNotHeld)
	holder.join(store.Held)
	for _, ticket := range []uint64{0, holder.claim.Ticket - 1, holder.claim.Ticket + 1} {
		t.wantError("Break of a ticket that no claim has", operator.breakTicket(name, ticket), store.ErrNotHeld)
	}
	holder.keep(store.Held)
}

func queueShowsEntries(t *trial) {
	name := t.name("line")
	a, b := t.open(), t.open()
	claims := []*contender{a.reader(name), b.reader(name), a.mutex(name), b.reader(name)}
	want := []store.State{store.Held, store.Held, store.Waiting, store.Waiting}
	for i, p := range claims {
		p.checkAhead(p.join(want[i]), i)
	}
	for i, p := range claims {
		p.checkAhead(p.keep(want[i]), i)
	}
	entries := b.entries(name)
	if len(entries) != len(claims) {
		t.fatalf("the queue has %d entries for %d claims", len(entries), len(claims))
	}
	for i, p := range claims {
		p.checkEntry(entries[i], want[i])
	}
}

// checkAhead requires the number of claims ahead of this one, if the store reports it.
func (p *contender) checkAhead(status store.Status, want int) {
	if status.Ahead != want && status.Ahead != -1 {
		p.t.errorf("a claim has %d ahead by its status, and there are %d", status.Ahead, want)
	}
}

// checkEntry compares the entry of a claim with what its client sent.
func (p *contender) checkEntry(entry store.Entry, state store.State) {
	got, want := entry.Claim, p.claim
	switch {
	case got.ID != want.ID || got.Ticket != want.Ticket:
		p.t.errorf("the queue shows claim %v with ticket %d, want %v with %d", got.ID, got.Ticket, want.ID, want.Ticket)
	case got.Name != want.Name || got.Demand != want.Demand:
		p.t.errorf("the queue shows a claim of %q for %+v, want %q and %+v",
			got.Name, got.Demand, want.Name, want.Demand)
	case got.Owner == nil || !reflect.DeepEqual(*got.Owner, *want.Owner):
		p.t.errorf("the queue shows the owner %+v, want %+v", got.Owner, want.Owner)
	case got.Turn != want.Turn || !slices.Equal(got.Waits, want.Waits):
		p.t.errorf("the queue shows turn %d and waits %v, want %d and %v", got.Turn, got.Waits, want.Turn, want.Waits)
	case entry.State != state:
		p.t.errorf("the queue shows as %v what is %v", entry.State, state)
	case entry.Left <= 0 || entry.Left > want.TTL+want.Grace:
		p.t.errorf("the queue shows %v left of a ttl of %v", entry.Left, want.TTL)
	}
}

// The queue shows since when the holder holds, and how much of its ttl is left.
func queueShowsTimes(t *trial) {
	name := t.name("time")
	c := t.open()
	holder, waiter := c.mutex(name).lasts(), c.mutex(name).lasts()
	began := time.Now()
	queued(holder, waiter)
	joined := time.Now()
	pause := t.ttl / 2
	t.advance(pause)
	for _, entry := range c.entries(name) {
		if entry.Since.Before(began.Add(-t.slack)) || entry.Since.After(joined.Add(t.slack)) {
			t.errorf("the queue shows a claim as %v since %v ago, and it is %v",
				entry.State, time.Since(entry.Since), pause)
		}
		if ttl := holder.claim.TTL; t.able.SessionTTL == 0 && entry.Left > ttl-pause+t.slack {
			t.errorf("the queue shows a claim with %v left, %v after it was kept, and its ttl is %v",
				entry.Left, pause, ttl)
		}
	}
	released := time.Now()
	holder.leave()
	waiter.keep(store.Held)
	if since := c.head(name).Since; since.Before(released.Add(-t.slack)) {
		t.errorf("the queue shows a claim as held since %v before it was granted", released.Sub(since))
	}
}

func emptyQueue(t *trial) {
	name := t.name("empty")
	c := t.open()
	if entries := c.entries(name); len(entries) > 0 {
		t.errorf("the queue of a name without claims has %d entries", len(entries))
	}
	c.mutex(name).keep(store.Gone)
	if got := c.list(t.mark); len(got) > 0 {
		t.errorf("Names yields %q, which has no claims", got)
	}
	if entries := c.entries(name); len(entries) > 0 {
		t.errorf("reading a queue put %d claims into it", len(entries))
	}
}

func keepCarriesNews(t *trial) {
	name := t.name("news")
	c := t.open()
	holder, waiter := c.mutex(name), c.mutex(name)
	queued(holder, waiter)
	for turn := range uint8(3) {
		holder.claim.Turn = turn + 1
		holder.claim.Owner = &store.Owner{ID: "heir", Label: "the next goroutine", PID: int(turn) + 1}
		holder.claim.Waits = append(holder.claim.Waits, store.Wait{Name: t.name("elsewhere"), ID: waiter.claim.ID})
		holder.keep(store.Held)
		holder.checkEntry(c.head(name), store.Held)
	}
	holder.claim.Waits = nil
	holder.keep(store.Held)
	holder.checkEntry(c.head(name), store.Held)
}

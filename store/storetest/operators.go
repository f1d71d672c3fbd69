package storetest

import (
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Cases about what operators use: Break and Line.

func breakHolder(t *trial) {
	name := t.name("break")
	holder, waiter, operator := t.open().mutex(name), t.open().mutex(name), t.open()
	holder.join(store.Held)
	waiter.join(store.Waiting)
	if err := operator.breakTicket(name, holder.claim.Ticket); err != nil {
		t.fatalf("Break of a holder: %v", err)
	}
	holder.keep(store.Gone)
	waiter.keep(store.Held)
}

func breakWaiter(t *trial) {
	name := t.name("break")
	holder, waiter, next, operator := t.open().mutex(name), t.open().mutex(name), t.open().mutex(name), t.open()
	holder.join(store.Held)
	waiter.join(store.Waiting)
	next.join(store.Waiting)
	if err := operator.breakTicket(name, waiter.claim.Ticket); err != nil {
		t.fatalf("Break of a waiter: %v", err)
	}
	waiter.keep(store.Gone)
	holder.keep(store.Held)
	holder.leave()
	next.keep(store.Held)
}

func breakNobody(t *trial) {
	name := t.name("break")
	holder, operator := t.open().mutex(name), t.open()
	if err := operator.breakTicket(name, 1); !errors.Is(err, store.ErrNotHeld) {
		t.errorf("Break in an empty line: %v, want %v", err, store.ErrNotHeld)
	}
	holder.join(store.Held)
	for _, ticket := range []uint64{0, holder.claim.Ticket - 1, holder.claim.Ticket + 1} {
		if err := operator.breakTicket(name, ticket); !errors.Is(err, store.ErrNotHeld) {
			t.errorf("Break of a ticket that nobody has: %v, want %v", err, store.ErrNotHeld)
		}
	}
	holder.keep(store.Held)
}

func lineShowsPlaces(t *trial) {
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
	places := b.line(name)
	if len(places) != len(claims) {
		t.fatalf("the line has %d places for %d claims", len(places), len(claims))
	}
	for i, p := range claims {
		p.checkPlace(places[i], want[i])
	}
}

// checkAhead demands the number of claims before this one, if the store knows it.
func (p *contender) checkAhead(standing store.Status, want int) {
	if standing.Ahead != want && standing.Ahead != -1 {
		p.t.errorf("a claim was told that %d stand before it, and there are %d", standing.Ahead, want)
	}
}

// checkPlace compares what a line shows of a claim with what its client said.
func (p *contender) checkPlace(place store.Entry, state store.State) {
	got, want := place.Claim, p.claim
	switch {
	case got.ID != want.ID || got.Ticket != want.Ticket:
		p.t.errorf("the line shows claim %v with ticket %d, want %v with %d", got.ID, got.Ticket, want.ID, want.Ticket)
	case got.Name != want.Name || got.Demand != want.Demand:
		p.t.errorf("the line shows a claim of %q for %+v, want %q and %+v", got.Name, got.Demand, want.Name, want.Demand)
	case got.Owner == nil || !reflect.DeepEqual(*got.Owner, *want.Owner):
		p.t.errorf("the line shows the owner %+v, want %+v", got.Owner, want.Owner)
	case got.Turn != want.Turn || !slices.Equal(got.Waits, want.Waits):
		p.t.errorf("the line shows turn %d and waits %v, want %d and %v", got.Turn, got.Waits, want.Turn, want.Waits)
	case place.State != state:
		p.t.errorf("the line shows as %v what is %v", place.State, state)
	case place.Left <= 0 || place.Left > want.TTL+want.Grace:
		p.t.errorf("the line shows %v left of a ttl of %v", place.Left, want.TTL)
	}
}

// Who waits is shown since when the holder holds, and how long it still has.
func lineTellsTheTime(t *trial) {
	name := t.name("time")
	c := t.open()
	holder, waiter := c.mutex(name).lasts(), c.mutex(name).lasts()
	began := time.Now()
	holder.join(store.Held)
	waiter.join(store.Waiting)
	joined := time.Now()
	pause := t.ttl / 2
	t.advance(pause)
	for _, place := range c.line(name) {
		if place.Since.Before(began.Add(-t.slack)) || place.Since.After(joined.Add(t.slack)) {
			t.errorf("the line shows a claim as %v since %v ago, and it is %v", place.State, time.Since(place.Since), pause)
		}
		if ttl := holder.claim.TTL; t.able.SessionTTL == 0 && place.Left > ttl-pause+t.slack {
			t.errorf("the line shows a claim with %v left, %v after it was kept, and its ttl is %v", place.Left, pause, ttl)
		}
	}
	released := time.Now()
	holder.leave()
	waiter.keep(store.Held)
	if since := c.head(name).Since; since.Before(released.Add(-t.slack)) {
		t.errorf("the line shows a claim as held since %v before it was granted", released.Sub(since))
	}
}

func emptyLine(t *trial) {
	name := t.name("empty")
	c := t.open()
	if places := c.line(name); len(places) > 0 {
		t.errorf("the line of a name that nobody claims has %d places", len(places))
	}
	c.mutex(name).keep(store.Gone)
	if got := c.list(t.mark); len(got) > 0 {
		t.errorf("Names gives %q though nobody claims it", got)
	}
	if places := c.line(name); len(places) > 0 {
		t.errorf("looking at a line put %d claims into it", len(places))
	}
}

func keepCarriesNews(t *trial) {
	name := t.name("news")
	c := t.open()
	holder, waiter := c.mutex(name), c.mutex(name)
	holder.join(store.Held)
	waiter.join(store.Waiting)
	for turn := range uint8(3) {
		holder.claim.Turn = turn + 1
		holder.claim.Owner = &store.Owner{ID: "heir", Label: "the next goroutine", PID: int(turn) + 1}
		holder.claim.Waits = append(holder.claim.Waits, store.Wait{Name: t.name("elsewhere"), ID: waiter.claim.ID})
		holder.keep(store.Held)
		holder.checkPlace(c.head(name), store.Held)
	}
	holder.claim.Waits = nil
	holder.keep(store.Held)
	holder.checkPlace(c.head(name), store.Held)
}

package storetest

import (
	"cmp"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/store"
)

var order = rule{2, "order", "Tickets rise strictly per resource, and grants follow tickets.", []scenario{
	{"tickets rise", 0, ticketsRise},
	{"first come first served", aQueue, firstComeFirstServed},
	{"joining at once", aQueue, joiningAtOnce},
	{"a long queue", aQueue, longQueue},
	{"a writer stops later readers", aQueue | sharing, writerStopsReaders},
	{"a large demand is not overtaken", aQueue | weights, largeDemandIsNotOvertaken},
	{"one release grants several", aQueue | weights, oneReleaseGrantsSeveral},
	{"a leaving waiter unblocks", aQueue | sharing, leavingWaiterUnblocks},
}}

// Tickets rise over clients, over an empty queue, and over the death of a client.
func ticketsRise(t *trial) {
	name := t.name("tickets")
	a, b := t.open(), t.open()
	var last uint64
	rises := func(p *contender) {
		if ticket := p.claim.Ticket; ticket <= last || ticket > store.MaxTicket {
			t.errorf("ticket %d was drawn after %d; the greatest is %d", ticket, last, uint64(store.MaxTicket))
		}
		last = p.claim.Ticket
	}
	for range 3 {
		for _, c := range []*client{a, b} {
			first, second := c.mutex(name), a.mutex(name)
			first.join(store.Held)
			rises(first)
			second.join(store.Waiting)
			first.leave()
			second.succeed()
			rises(second)
			second.leave()
		}
	}
	dead := t.open().mutex(name)
	dead.join(store.Held)
	rises(dead)
	dead.link.Kill()
	heir := b.mutex(name)
	heir.join(store.Waiting)
	heir.await()
	rises(heir)
}

// The last claims are kept first: a store that grants the claim that is kept is caught.
func firstComeFirstServed(t *trial) {
	name := t.name("line")
	a, b := t.open(), t.open()
	line := []*contender{a.mutex(name), b.mutex(name), a.mutex(name), b.mutex(name), a.mutex(name)}
	for i, p := range line {
		p.checkAhead(p.join(stateAt(i)), i)
	}
	for len(line) > 0 {
		for i, p := range slices.Backward(line) {
			p.keep(stateAt(i))
		}
		line[0].leave()
		line = line[1:]
	}
}

// stateAt returns the state of an exclusive claim with this many claims ahead.
func stateAt(ahead int) store.State {
	if ahead == 0 {
		return store.Held
	}
	return store.Waiting
}

// If a ticket is drawn before its claim is appended, another claim can overtake it.
func joiningAtOnce(t *trial) {
	name := t.name("rush")
	var mu sync.Mutex
	var line []*contender
	for range 4 {
		c := t.open()
		for range 8 {
			t.async(func() {
				p := c.mutex(name)
				p.claim.TTL = t.longTTL()
				p.joinAny()
				mu.Lock()
				defer mu.Unlock()
				line = append(line, p)
			})
		}
	}
	t.wait()
	slices.SortFunc(line, func(a, b *contender) int { return cmp.Compare(a.claim.Ticket, b.claim.Ticket) })
	for i, p := range line {
		if i > 0 && p.claim.Ticket == line[i-1].claim.Ticket {
			t.errorf("ticket %d was drawn twice", p.claim.Ticket)
		}
	}
	for _, p := range line {
		p.keep(store.Held)
		p.leave()
	}
}

// No claim in a long queue is forgotten or overtaken.
func longQueue(t *trial) {
	name := t.name("long")
	clients := []*client{t.open(), t.open(), t.open()}
	line := make([]*contender, t.many)
	for i := range line {
		line[i] = clients[i%3].mutex(name)
		line[i].claim.TTL = t.longTTL()
		line[i].join(stateAt(i))
	}
	for i, p := range line {
		if i+1 < len(line) {
			line[i+1].keep(store.Waiting)
		}
		p.keep(store.Held)
		p.leave()
	}
}

func writerStopsReaders(t *trial) {
	name := t.name("rw")
	a, b := t.open(), t.open()
	early, writer, late := a.reader(name), b.mutex(name), a.reader(name)
	queued(early, writer, late)
	b.reader(name).try(store.Gone)
	early.leave()
	late.keep(store.Waiting)
	writer.keep(store.Held)
	writer.leave()
	late.keep(store.Held)
}

func largeDemandIsNotOvertaken(t *trial) {
	name := t.name("large")
	a, b := t.open(), t.open()
	holder, large, small := a.semaphore(name, 2, 3), b.semaphore(name, 2, 3), a.semaphore(name, 1, 3)
	queued(holder, large, small) // the last one too, though one unit is free
	holder.leave()
	small.keep(store.Held) // two and one fit together
	large.keep(store.Held)
}

func oneReleaseGrantsSeveral(t *trial) {
	name := t.name("several")
	a, b := t.open(), t.open()
	holder := a.semaphore(name, 4, 4)
	second, third, fourth := b.semaphore(name, 1, 4), a.semaphore(name, 3, 4), b.semaphore(name, 1, 4)
	queued(holder, second, third, fourth)
	holder.leave()
	fourth.keep(store.Waiting)
	third.keep(store.Held)
	second.keep(store.Held)
	third.leave()
	fourth.keep(store.Held)
}

// A waiter, too, blocks the claims behind it.
func leavingWaiterUnblocks(t *trial) {
	name := t.name("unblocks")
	a, b := t.open(), t.open()
	early, writer, late := a.reader(name), b.mutex(name), a.reader(name)
	queued(early, writer, late)
	writer.leave()
	late.keep(store.Held)
	early.keep(store.Held)
}

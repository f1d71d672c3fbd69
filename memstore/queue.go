package memstore

import (
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/grant"
)

// A tenant is what stores of one prefix see.
type tenant struct{ queues map[string]*queue }

// An entry is a claim in a queue or, without a queue, the tombstone of a claim whose Join may still arrive.
type entry struct {
	claim    store.Claim
	queue    *queue
	store    *Store // the client's connection, to notify; nil if the claim is detached
	prev     *entry
	next     *entry
	held     bool
	since    time.Time // when it joined, or was granted
	deadline time.Time // when it expires unless it is kept
	pos      int       // its index among the server's deadlines
}

// SetIndex records p's index among the server's deadlines.
func (p *entry) SetIndex(i int) { p.pos = i }

// A queue is the list of a name's claims in order of arrival. The held ones come first: prefix counts them, and next is
// the first that waits. So the cost of a change does not depend on the length of the queue.
type queue struct {
	tenant *tenant
	name   string
	first  *entry
	last   *entry
	next   *entry
	size   int
	prefix grant.Prefix
	newer  bool // written in a format of the future
}

// fits reports whether a new claim would be held at once.
func (q *queue) fits(a store.Demand) bool {
	p := q.prefix
	return q.next == nil && p.Admit(a)
}

// push appends p.
func (q *queue) push(p *entry) {
	p.queue = q
	p.prev = q.last
	if q.last == nil {
		q.first = p
	} else {
		q.last.next = p
	}
	q.last = p
	if q.next == nil {
		q.next = p
	}
	q.size++
}

// remove unlinks p.
func (q *queue) remove(p *entry) {
	if p.held {
		q.prefix.Remove(p.claim.Demand)
	}
	if q.next == p {
		q.next = p.next
	}
	if p.prev == nil {
		q.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		q.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.queue, p.prev, p.next = nil, nil, nil
	q.size--
}

// shrink reduces p to units. It never gives p more than it has.
func (q *queue) shrink(p *entry, units int32) {
	if units < 1 || units >= p.claim.Units {
		return
	}
	if p.held {
		q.prefix.Shrink(p.claim.Units - units)
	}
	p.claim.Units = units
}

// grant marks the next waiting claim as held and returns it, or returns nil if it does not fit.
func (q *queue) grant(now time.Time) *entry {
	p := q.next
	if p == nil || !q.prefix.Admit(p.claim.Demand) {
		return nil
	}
	q.next = p.next
	p.held = true
	p.since = now
	return p
}

package memstore

import (
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/grant"
)

// A tenant is all that stores of one prefix see.
type tenant struct{ queues map[string]*queue }

// A place is a claim in a queue or, with no queue, the tombstone of one whose Join may still come.
type place struct {
	claim    store.Claim
	queue    *queue
	store    *Store // whom to tell
	before   *place
	after    *place
	held     bool
	since    time.Time // when it joined, or was granted
	deadline time.Time // when it is out unless it is kept
	pos      int       // among the server's places by deadline
}

// StandAt notes where among the server's places by deadline it is.
func (p *place) SetIndex(i int) { p.pos = i }

// A queue is the line of one resource: a list in order of arrival. The held places come first; prefix counts
// them, and next is the first that waits. So a change costs what changed, however long the line is.
type queue struct {
	tenant *tenant
	name   string
	first  *place
	last   *place
	next   *place
	size   int
	prefix grant.Prefix
	newer  bool // written in a format of the future
}

// fits says whether a newcomer would be held at once.
func (q *queue) fits(a store.Demand) bool {
	p := q.prefix
	return q.next == nil && p.Admit(a)
}

// push puts p at the end.
func (q *queue) push(p *place) {
	p.queue = q
	p.before = q.last
	if q.last == nil {
		q.first = p
	} else {
		q.last.after = p
	}
	q.last = p
	if q.next == nil {
		q.next = p
	}
	q.size++
}

// remove takes p out, wherever it stands.
func (q *queue) remove(p *place) {
	if p.held {
		q.prefix.Remove(p.claim.Demand)
	}
	if q.next == p {
		q.next = p.after
	}
	if p.before == nil {
		q.first = p.after
	} else {
		p.before.after = p.after
	}
	if p.after == nil {
		q.last = p.before
	} else {
		p.after.before = p.before
	}
	p.queue, p.before, p.after = nil, nil, nil
	q.size--
}

// shrink gives p fewer units, never more.
func (q *queue) shrink(p *place, units int32) {
	if units < 1 || units >= p.claim.Units {
		return
	}
	if p.held {
		q.prefix.Shrink(p.claim.Units - units)
	}
	p.claim.Units = units
}

// grant holds the next in line if it fits, and returns it.
func (q *queue) grant(now time.Time) *place {
	p := q.next
	if p == nil || !q.prefix.Admit(p.claim.Demand) {
		return nil
	}
	q.next = p.after
	p.held = true
	p.since = now
	return p
}

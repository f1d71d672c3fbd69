package webui

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// A board is what the handler knows of the store: its queues, the events that follow from how they changed, and the
// deadlocks among them. It does no I/O; the hub feeds it with what the watch reports.
type board struct {
	queues  map[string]*queue
	owners  map[string]map[string]bool // the names in whose queues an owner with an ID has claims
	history history
	broken  map[claimKey]string // claims that this page breaks, and the address from which
	knots   []deadlock
	pending map[store.ID]deadlock // found once, to be confirmed

	version  uint64
	dirty    map[string]bool   // names whose rows changed since they were last sent
	held     int               // queues with a holder
	waiting  int               // waiting claims
	loaded   bool              // the first batch has arrived
	since    time.Time         // when the first batch arrived
	unread   map[string]string // names whose queues cannot be read, and why
	err      error             // of the store, while it is failing
	failedAt time.Time
}

// A queue is a queue as it was last reported.
type queue struct {
	holdfast.Queue
	claims  []claim        // one for each entry
	tickets map[uint64]int // the index of each claim, if there are many
	version uint64
	row     []byte // the row in JSON, nil if it has to be encoded
	dead    bool   // it is part of a deadlock
}

// A claim is what is known of an entry beyond what the watch reports.
type claim struct {
	until time.Time     // the latest expiry that is known; renewals that were not read make the real one later
	full  time.Duration // the most time left that was read, about the ttl
	left  time.Duration // the time left when it was last read
}

// A claimKey names a claim for as long as the store keeps tickets unique.
type claimKey struct {
	name   string
	ticket uint64
}

// newBoard returns an empty board.
func newBoard() *board {
	return &board{
		queues: map[string]*queue{}, owners: map[string]map[string]bool{}, broken: map[claimKey]string{},
		pending: map[store.ID]deadlock{}, dirty: map[string]bool{}, unread: map[string]string{}, history: newHistory(),
	}
}

// apply takes a batch of the watch, which arrived at now.
func (b *board) apply(batch []holdfast.Queue, now time.Time) {
	why := ""
	if b.err != nil {
		why = fmt.Sprintf("seen after the store had failed for %v", now.Sub(b.failedAt).Round(time.Second))
	}
	for _, q := range batch {
		b.replace(q, now, why)
	}
	if !b.loaded {
		b.loaded, b.since = true, now
	}
	b.err = nil
}

// fail notes that the store is failing, or that one queue cannot be read.
func (b *board) fail(err error, now time.Time) {
	if e, ok := errors.AsType[*holdfast.Error](err); ok && e.Name != "" {
		if len(b.unread) < maxUnread {
			b.unread[e.Name] = err.Error()
		}
		return
	}
	if b.err == nil {
		b.failedAt = now
	}
	b.err = err
}

// maxUnread is how many names are noted whose queues cannot be read.
const maxUnread = 1000

// replace takes the new state of one queue.
func (b *board) replace(q holdfast.Queue, now time.Time, why string) {
	delete(b.unread, q.Name)
	old := b.queues[q.Name]
	if old == nil && len(q.Entries) == 0 {
		return
	}
	if old == nil {
		old = &queue{}
	}
	next := newQueue(q)
	next.dead = old.dead
	for i := range q.Entries {
		if j := old.find(q.Entries[i].Token.Ticket()); j >= 0 {
			next.claims[i] = old.claims[j]
		}
		next.claims[i].read(now, q.Entries[i].Left)
	}
	if b.loaded {
		b.compare(old, next, now, why)
	}
	b.count(old, -1)
	b.count(next, +1)
	b.version++
	next.version = b.version
	b.dirty[q.Name] = true
	if len(q.Entries) == 0 {
		delete(b.queues, q.Name)
		return
	}
	b.queues[q.Name] = next
}

// count adds a queue to the sums and to the index of owners, or takes it out.
func (b *board) count(q *queue, by int) {
	if len(q.Holders()) > 0 {
		b.held += by
	}
	b.waiting += by * len(q.Waiters())
	for i := range q.Entries {
		id := q.Entries[i].Owner.ID
		switch {
		case id == "":
		case by < 0:
			delete(b.owners[id], q.Name)
			if len(b.owners[id]) == 0 {
				delete(b.owners, id)
			}
		case b.owners[id] == nil:
			b.owners[id] = map[string]bool{q.Name: true}
		default:
			b.owners[id][q.Name] = true
		}
	}
}

// compare derives the events from two states of a queue.
func (b *board) compare(old, next *queue, now time.Time, why string) {
	for i := range old.Entries {
		e := &old.Entries[i]
		if next.find(e.Token.Ticket()) < 0 {
			b.history.add(next.Name, b.ended(next.Name, e, &old.claims[i], now, why))
		}
	}
	for i := range next.Entries {
		e := &next.Entries[i]
		ev := event{At: now.UnixMilli(), Token: e.Token, Owner: e.Owner, Why: why}
		var was *holdfast.Entry
		if j := old.find(e.Token.Ticket()); j >= 0 {
			was = &old.Entries[j]
		}
		switch {
		case was == nil && e.Held:
			ev.Kind = granted
		case was == nil:
			ev.Kind = queued
		case e.Held && !was.Held:
			ev.Kind = granted
			if waited := now.Sub(was.Since); !was.Since.IsZero() && waited > 0 {
				ev.Why = join("waited "+shortDuration(waited), why)
			}
		case !e.Held && was.Held:
			ev.Kind, ev.Why = lost, join("the store reports it as waiting again", why)
		case e.Token != was.Token:
			ev.Kind, ev.Why = handedOver, join("inside its process", why)
		case e.Units < was.Units:
			ev.Kind, ev.Why = shrunk, join(fmt.Sprintf("from %d to %d units", was.Units, e.Units), why)
		default:
			continue
		}
		b.history.add(next.Name, ev)
	}
}

// ended returns the event of a claim that is gone.
func (b *board) ended(name string, e *holdfast.Entry, c *claim, now time.Time, why string) event {
	ev := event{At: now.UnixMilli(), Token: e.Token, Owner: e.Owner, Kind: ended}
	key := claimKey{name, e.Token.Ticket()}
	by, broken := b.broken[key]
	delete(b.broken, key)
	switch {
	case broken:
		ev.Kind, ev.Why = brokenHere, "on this page, from "+by
	case !e.Held:
		ev.Kind = leftQueue
	case now.Before(c.until):
		ev.Kind, ev.Why = released, "or broken elsewhere, "+shortDuration(c.until.Sub(now))+" before it could expire"
	case c.left > 0 && c.full > 0 && c.left < c.full/3 && why == "":
		ev.Kind, ev.Why = expired, "not renewed: "+shortDuration(c.left)+" were left when it was last read"
	default:
		ev.Why = "released, expired or broken elsewhere; the store does not report which"
	}
	ev.Why = join(ev.Why, why)
	return ev
}

// refresh takes the time left from a read of a queue that began at start. It changes nothing else: the read may be
// older than what the watch has reported meanwhile.
func (b *board) refresh(q holdfast.Queue, start time.Time) {
	known := b.queues[q.Name]
	if known == nil {
		return
	}
	for i := range q.Entries {
		if j := known.find(q.Entries[i].Token.Ticket()); j >= 0 {
			known.claims[j].read(start, q.Entries[i].Left)
		}
	}
	known.row = nil
}

// read notes the time that was left at some moment.
func (c *claim) read(at time.Time, left time.Duration) {
	if until := at.Add(left); until.After(c.until) {
		c.until = until
	}
	c.left, c.full = left, max(c.full, left)
}

// manyClaims is from how many claims on a queue has an index.
const manyClaims = 16

// newQueue returns a queue as the board keeps it.
func newQueue(q holdfast.Queue) *queue {
	next := &queue{Queue: q, claims: make([]claim, len(q.Entries))}
	if len(q.Entries) >= manyClaims {
		next.tickets = make(map[uint64]int, len(q.Entries))
		for i := range q.Entries {
			next.tickets[q.Entries[i].Token.Ticket()] = i
		}
	}
	return next
}

// find returns the index of the claim with this ticket, or -1.
func (q *queue) find(ticket uint64) int {
	if q.tickets != nil {
		if i, ok := q.tickets[ticket]; ok {
			return i
		}
		return -1
	}
	return slices.IndexFunc(q.Entries, func(e holdfast.Entry) bool { return e.Token.Ticket() == ticket })
}

// changes returns the rows that changed since the last call, and the names that are no longer in use.
func (b *board) changes() (rows []json.RawMessage, gone []string) {
	for name := range b.dirty {
		if q := b.queues[name]; q != nil {
			rows = append(rows, q.encoded())
		} else {
			gone = append(gone, name)
		}
	}
	clear(b.dirty)
	return rows, gone
}

// rows returns the rows of all queues.
func (b *board) rows() []json.RawMessage {
	rows := make([]json.RawMessage, 0, len(b.queues))
	for _, q := range b.queues {
		rows = append(rows, q.encoded())
	}
	return rows
}

// encoded returns the row of the queue as JSON. It is encoded once.
func (q *queue) encoded() json.RawMessage {
	if q.row == nil {
		q.row, _ = json.Marshal(newRow(q)) // strings and numbers: it cannot fail
	}
	return q.row
}

// names returns the names in whose queues an owner has claims, in order: none for an owner without an ID.
func (b *board) names(owner string) []string { return slices.Sorted(maps.Keys(b.owners[owner])) }

// join returns two texts separated by a semicolon, or the one that is not empty.
func join(a, b string) string {
	if a == "" || b == "" {
		return cmp.Or(a, b)
	}
	return a + "; " + b
}

// shortDuration writes a duration with the precision that matters for reading.
func shortDuration(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

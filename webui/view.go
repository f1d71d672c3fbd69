package webui

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// What the page receives. Moments are milliseconds since 1970 by the handler's clock, 0 if unknown; each message says
// what time it is there, so that the browser's clock does not matter.
type (
	// A rowJSON is a queue in the table.
	rowJSON struct {
		Name    string         `json:"name"`
		Version uint64         `json:"v"`
		Mode    string         `json:"mode,omitempty"`
		Owner   *store.Owner   `json:"owner,omitempty"` // the first holder
		Holders int            `json:"holders"`
		Token   holdfast.Token `json:"token,omitempty"`
		Since   int64          `json:"since,omitempty"`
		Until   int64          `json:"until,omitempty"`
		Full    int64          `json:"full,omitempty"` // milliseconds: the most time left that was read
		Waiters int            `json:"waiters"`
		Waiting int64          `json:"waiting,omitempty"` // since when the first waiter waits
		Dead    bool           `json:"dead,omitempty"`
	}
	// An entryJSON is a claim in the detail of a queue.
	entryJSON struct {
		Owner store.Owner    `json:"owner"`
		Token holdfast.Token `json:"token"`
		Held  bool           `json:"held"`
		Mode  string         `json:"mode"`
		Since int64          `json:"since,omitempty"`
		Until int64          `json:"until,omitempty"`
		Full  int64          `json:"full,omitempty"`
		Also  []linkJSON     `json:"also,omitempty"` // other queues in which its owner has claims
	}
	// A linkJSON is a claim of an owner in another queue.
	linkJSON struct {
		Name string `json:"name"`
		Held bool   `json:"held"`
	}
	stepJSON struct {
		Owner store.Owner `json:"owner"`
		Name  string      `json:"name"`  // that it waits for
		Since int64       `json:"since"` // since when
		Holds bool        `json:"holds"` // the next owner holds that name, and does not just wait further ahead
	}
	// A detailJSON is all that the page shows of one queue.
	detailJSON struct {
		Now       int64        `json:"now"`
		Name      string       `json:"name"`
		Version   uint64       `json:"v"`
		Holders   int          `json:"holders"`
		Waiters   int          `json:"waiters"`
		Entries   []entryJSON  `json:"entries"` // the first of them
		Tree      []*blockJSON `json:"tree"`
		Notes     []string     `json:"notes"`
		Deadlocks [][]stepJSON `json:"deadlocks"`
		Events    []event      `json:"events"` // the newest first
		Watched   int64        `json:"watched,omitempty"`
	}
)

// maxEntries is how many claims of a queue the page shows.
const maxEntries = 500

// millis returns t in milliseconds since 1970, or 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// mode writes what a claim has or wants.
func mode(e *holdfast.Entry) string {
	switch {
	case e.Kind == store.Semaphore:
		return fmt.Sprintf("%d of %d", e.Units, e.Limit)
	case e.Token.Shared():
		return "shared"
	}
	return "exclusive"
}

// newRow returns the row of a queue that is in use.
func newRow(q *queue) rowJSON {
	r := rowJSON{Name: q.Name, Version: q.version, Waiters: len(q.Waiters()), Holders: len(q.Holders()), Dead: q.dead}
	r.Mode = mode(&q.Entries[0])
	if q.Entries[0].Kind == store.Semaphore {
		used := 0
		for _, h := range q.Holders() {
			used += h.Units
		}
		r.Mode = fmt.Sprintf("%d of %d", used, q.Entries[0].Limit)
	}
	if r.Holders > 0 {
		first := &q.Entries[0]
		r.Owner, r.Token, r.Since = &first.Owner, first.Token, millis(first.Since)
		r.Until, r.Full = millis(q.claims[0].until), q.claims[0].full.Milliseconds()
	}
	if r.Waiters > 0 {
		r.Waiting = millis(q.Waiters()[0].Since)
	}
	return r
}

// detail returns what the page shows of a queue, which may be empty.
func (b *board) detail(name string, now time.Time) detailJSON {
	d := detailJSON{
		Now: now.UnixMilli(), Name: name, Version: b.version, Watched: millis(b.since), Entries: []entryJSON{},
		Notes: []string{}, Deadlocks: [][]stepJSON{}, Events: []event{}, Tree: []*blockJSON{},
	}
	if q := b.queues[name]; q != nil {
		d.Version, d.Holders, d.Waiters = q.version, len(q.Holders()), len(q.Waiters())
		for i := range q.Entries[:min(len(q.Entries), maxEntries)] {
			e, c := &q.Entries[i], &q.claims[i]
			d.Entries = append(d.Entries, entryJSON{
				Owner: e.Owner, Token: e.Token, Held: e.Held, Mode: mode(e), Since: millis(e.Since),
				Until: millis(c.until), Full: c.full.Milliseconds(), Also: b.also(e.Owner.ID, name),
			})
		}
		d.Notes = notes(q, now)
		d.Tree = b.tree(name)
	}
	for _, k := range b.knots {
		if k.names[name] {
			d.Deadlocks = append(d.Deadlocks, k.steps())
		}
	}
	d.Events = append(d.Events, b.history.of(name)...)
	slices.Reverse(d.Events)
	return d
}

// maxLinks is how many other claims of an owner the page shows.
const maxLinks = 8

// also returns the claims that an owner has in other queues.
func (b *board) also(owner, name string) (links []linkJSON) {
	for _, other := range b.names(owner) {
		if other != name && len(links) < maxLinks {
			links = append(links, linkJSON{other, b.queues[other].holds(owner)})
		}
	}
	return links
}

// holds reports whether an owner with an ID holds the name.
func (q *queue) holds(owner string) bool {
	return slices.ContainsFunc(q.Holders(), func(h holdfast.Entry) bool { return h.Owner.ID == owner })
}

// notes returns what an operator should know about requests for a name: what could be refused or held back. It has
// only what follows from the queue.
func notes(q *queue, now time.Time) []string {
	var notes []string
	holders, first := q.Holders(), &q.Entries[0]
	switch {
	case len(holders) == 0:
		notes = append(notes, "No claim holds it although claims wait: a grant is under way, or the store holds "+
			"grants back, as it does after a restart (startup delay, quarantine).")
	case first.Kind == store.Semaphore:
		notes = append(notes, fmt.Sprintf("In use as a semaphore of %d. Until it is free, requests for a lock of this "+
			"name, or for a semaphore of another size, are refused.", first.Limit))
	default:
		notes = append(notes, "In use as a lock. Until it is free, requests for a semaphore of this name are refused.")
	}
	if slices.ContainsFunc(holders, func(h holdfast.Entry) bool { return h.Since.IsZero() }) {
		notes = append(notes, "The store cannot tell since when it is held. The holder may use another library.")
	}
	for i := range holders {
		if left := q.claims[i].until.Sub(now); left < 0 && q.claims[i].left < q.claims[i].full/3 {
			notes = append(notes, fmt.Sprintf("The claim with token %s was not renewed in time. It ends with its "+
				"grace, if it has one.", holders[i].Token))
		}
	}
	return notes
}

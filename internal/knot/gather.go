package knot

import (
	"context"

	"github.com/holdfast-go/holdfast/store"
)

// A walk is what one search has read.
type walk struct {
	queues  map[string]*queue // nil: requested, not yet read
	order   []*queue          // in the order of reading
	parties map[string]*owner
	met     []*owner // the owners of blocking claims, and the one that started the walk
	entries int

	pending []*entry // claims of owners that were met, still to be followed
	names   []string // queues still to be read
}

// A queue is a queue that was read.
type queue struct {
	name    string
	entries []entry
	need    int  // the owners of all claims before this index were met; the last wait that matters is just before it
	dirty   bool // an owner in it became live since it was last reduced
	mark    int  // how far the current search has come
}

// An entry is a claim in a queue.
type entry struct {
	claim *store.Entry
	owner *owner
	queue *queue
	at    int
}

// An owner is an owner of claims that were read.
type owner struct {
	id      string
	entries []*entry // all its claims that were read, in the order of each queue
	met     bool
	live    bool // it can continue, or is treated as if it could

	leads, led bool   // a search from the claim's owner reached it, backwards or forwards
	wait, via  *entry // the wait, and the claim of this owner ahead of it, by which the search for a cycle came
}

// gather reads all queues that matter to the claim me. It returns nil if the claim no longer waits or there is too
// much.
//
// The result does not depend on the order. It is closed under two rules: the owner of every claim ahead of a wait of a
// met owner is met, and every queue that a met owner has published a wait for, on any claim that was read, is read.
func (w *walk) gather(ctx context.Context, read Reader, name string, me store.ID) (*entry, error) {
	w.request(name)
	var start *entry
	for len(w.names) > 0 {
		next := w.names[0]
		w.names = w.names[1:]
		got, err := read(ctx, next)
		if err != nil {
			return nil, err
		}
		if w.entries += len(got.Entries); w.entries > maxEntries {
			return nil, nil
		}
		r := w.add(next, got.Entries)
		if start == nil {
			if start = r.find(me); start == nil {
				return nil, nil
			}
			w.meet(start.owner)
		}
		for len(w.pending) > 0 {
			s := w.pending[0]
			w.pending = w.pending[1:]
			w.follow(s)
		}
		if len(w.queues) > maxQueues {
			return nil, nil
		}
	}
	return start, nil
}

func (w *walk) request(name string) {
	if _, asked := w.queues[name]; !asked {
		w.queues[name] = nil
		w.names = append(w.names, name)
	}
}

// add adds a queue that was read.
func (w *walk) add(name string, places []store.Entry) *queue {
	// never grows, so that pointers to entries stay valid
	r := &queue{name: name, entries: make([]entry, 0, len(places))}
	for i := range places {
		p := &places[i]
		if p.State != store.Held && p.State != store.Waiting {
			continue
		}
		owner := w.owner(p)
		r.entries = append(r.entries, entry{claim: p, owner: owner, queue: r, at: len(r.entries)})
		s := &r.entries[len(r.entries)-1]
		owner.entries = append(owner.entries, s)
		if owner.met {
			w.pending = append(w.pending, s)
		}
	}
	w.queues[name] = r
	w.order = append(w.order, r)
	return r
}

func (w *walk) owner(p *store.Entry) *owner {
	var id string
	if p.Owner != nil {
		id = p.Owner.ID
	}
	if id == "" {
		id = p.ID.String()
	}
	o := w.parties[id]
	if o == nil {
		o = &owner{id: id}
		w.parties[id] = o
	}
	return o
}

func (w *walk) meet(p *owner) {
	if !p.met {
		p.met = true
		w.met = append(w.met, p)
		w.pending = append(w.pending, p.entries...)
	}
}

// follow continues from a claim of a met owner: to the owners of all claims ahead of it if it waits, and to the queues
// in which its owner has published waits. Whether the owner waits is decided there: a published wait that is over, or
// was never true, leads to a queue in which the owner has no waiting claim.
func (w *walk) follow(s *entry) {
	if s.waits() {
		for r := s.queue; r.need <= s.at; r.need++ {
			w.meet(r.entries[r.need].owner)
		}
	}
	for _, wait := range s.claim.Waits {
		w.request(wait.Name)
	}
}

// find returns the waiting claim with this ID, or nil.
func (r *queue) find(id store.ID) *entry {
	for i := range r.entries {
		if s := &r.entries[i]; s.claim.ID == id && s.waits() {
			return s
		}
	}
	return nil
}

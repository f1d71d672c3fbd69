package knot

import (
	"context"

	"github.com/holdfast-go/holdfast/store"
)

// A web is what one walk has read.
type web struct {
	rows    map[string]*row // nil: asked for, not yet read
	order   []*row          // as they were read
	parties map[string]*party
	met     []*party // those that stand in the way of somebody, and who started the walk
	places  int

	look  []*spot  // places of those met that are still to be looked at
	names []string // lines still to be read
}

// A row is a line that was read.
type row struct {
	name  string
	spots []spot
	need  int  // up to here everyone was met: the last wait that matters is just before
	dirty bool // somebody in it went live since it was last reduced
	mark  int  // how far the search that is going on has come
}

// A spot is a place in a row.
type spot struct {
	place *store.Entry
	owner *party
	row   *row
	at    int
}

// A party is an owner.
type party struct {
	id    string
	spots []*spot // all its places that were read, in the order of each line
	met   bool
	live  bool // can go on, or counts as if it could

	leads, led bool  // a search from the claim's owner came here, forwards or backwards
	wait, via  *spot // by which wait, behind which place of this party, the search for a cycle came here
}

// gather reads what matters to the claim me. It returns nil if it waits no more or there is too much.
//
// What is gathered does not depend on the order: it is closed under "who stands ahead of a wait of somebody met
// is met" and "where somebody met waits, by what it wrote on any place that was read, is read".
func (w *web) gather(ctx context.Context, read Reader, name string, me store.ID) (*spot, error) {
	w.ask(name)
	var start *spot
	for len(w.names) > 0 {
		next := w.names[0]
		w.names = w.names[1:]
		got, err := read(ctx, next)
		if err != nil {
			return nil, err
		}
		if w.places += len(got.Entries); w.places > maxPlaces {
			return nil, nil
		}
		r := w.add(next, got.Entries)
		if start == nil {
			if start = r.find(me); start == nil {
				return nil, nil
			}
			w.meet(start.owner)
		}
		for len(w.look) > 0 {
			s := w.look[0]
			w.look = w.look[1:]
			w.follow(s)
		}
		if len(w.rows) > maxLines {
			return nil, nil
		}
	}
	return start, nil
}

func (w *web) ask(name string) {
	if _, asked := w.rows[name]; !asked {
		w.rows[name] = nil
		w.names = append(w.names, name)
	}
}

// add notes a line that was read.
func (w *web) add(name string, places []store.Entry) *row {
	r := &row{name: name, spots: make([]spot, 0, len(places))} // never grows, so that spots stay where they are
	for i := range places {
		p := &places[i]
		if p.State != store.Held && p.State != store.Waiting {
			continue
		}
		owner := w.party(p)
		r.spots = append(r.spots, spot{place: p, owner: owner, row: r, at: len(r.spots)})
		s := &r.spots[len(r.spots)-1]
		owner.spots = append(owner.spots, s)
		if owner.met {
			w.look = append(w.look, s)
		}
	}
	w.rows[name] = r
	w.order = append(w.order, r)
	return r
}

func (w *web) party(p *store.Entry) *party {
	var id string
	if p.Owner != nil {
		id = p.Owner.ID
	}
	if id == "" {
		id = p.ID.String()
	}
	o := w.parties[id]
	if o == nil {
		o = &party{id: id}
		w.parties[id] = o
	}
	return o
}

func (w *web) meet(p *party) {
	if !p.met {
		p.met = true
		w.met = append(w.met, p)
		w.look = append(w.look, p.spots...)
	}
}

// follow goes on from a place of somebody met: to all who stand ahead of it if it waits, and to the lines in
// which its owner says that it waits. Whether it does is seen there: a wait that is over, or was never true, leads
// to a line in which its owner has no waiting place.
func (w *web) follow(s *spot) {
	if s.place.State == store.Waiting {
		for r := s.row; r.need <= s.at; r.need++ {
			w.meet(r.spots[r.need].owner)
		}
	}
	for _, wait := range s.place.Waits {
		w.ask(wait.Name)
	}
}

// find gives the waiting place of a claim.
func (r *row) find(id store.ID) *spot {
	for i := range r.spots {
		if s := &r.spots[i]; s.place.ID == id && s.place.State == store.Waiting {
			return s
		}
	}
	return nil
}

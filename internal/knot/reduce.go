package knot

import (
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/grant"
)

// tie gives the members of the knot around start, or nil. All others count as live afterwards.
//
// It is the greatest such set: whatever is stuck by itself is stuck among more, and is never cut apart.
func (w *web) tie(start *party) []*party {
	for _, p := range w.met {
		if !p.waiting() {
			p.free()
		}
	}
	for _, r := range w.order {
		r.dirty = true
	}
	for {
		w.reduce()
		if start.live {
			return nil
		}
		members, all := w.around(start)
		switch {
		case len(members) < 2:
			return nil
		case all:
			return members
		}
	}
}

// reduce lets everyone go on who can, until nobody can.
func (w *web) reduce() {
	for again := true; again; {
		again = false
		for _, r := range w.order {
			if r.dirty {
				r.reduce()
				again = true
			}
		}
	}
}

// reduce frees those whose waiting places are granted once all who are live have left.
func (r *row) reduce() {
	r.dirty = false
	var held grant.Prefix
	for i := range r.spots[:r.need] {
		s := &r.spots[i]
		if s.owner.live {
			continue
		}
		if !held.Admit(s.place.Demand) {
			return
		}
		if s.place.State == store.Waiting {
			held.Remove(s.place.Demand)
			s.owner.free()
		}
	}
}

// free makes a party live. Its places no longer stand in anyone's way.
func (p *party) free() {
	p.live = true
	for _, s := range p.spots {
		s.row.dirty = true
	}
}

// around gives the stuck who block start and are blocked by it, directly or over others, and frees the rest. It
// also says whether there was no rest.
func (w *web) around(start *party) (members []*party, all bool) {
	for _, p := range w.met {
		p.leads, p.led = false, false
	}
	w.forwards(start)
	w.backwards(start)
	all = true
	for _, p := range w.met {
		switch {
		case p.live:
		case p.leads && p.led:
			members = append(members, p)
		default:
			all = false
			p.free()
		}
	}
	return members, all
}

// forwards marks everyone stuck for whom start waits. Each row is gone through once, since who is ahead of a place
// is also ahead of all places behind it. That an owner is ahead of itself makes no difference here.
func (w *web) forwards(start *party) {
	for _, r := range w.order {
		r.mark = 0
	}
	start.led = true
	for todo := []*party{start}; len(todo) > 0; todo = todo[1:] {
		for _, s := range todo[0].spots {
			if s.place.State != store.Waiting {
				continue
			}
			for ; s.row.mark < s.at; s.row.mark++ {
				if p := s.row.spots[s.row.mark].owner; !p.live && !p.led {
					p.led = true
					todo = append(todo, p)
				}
			}
		}
	}
}

// backwards marks everyone stuck who waits for start.
func (w *web) backwards(start *party) {
	for _, r := range w.order {
		r.mark = r.need
	}
	start.leads = true
	for todo := []*party{start}; len(todo) > 0; todo = todo[1:] {
		for _, s := range todo[0].spots {
			for ; s.row.mark > s.at+1; s.row.mark-- {
				behind := &s.row.spots[s.row.mark-1]
				if p := behind.owner; behind.place.State == store.Waiting && !p.live && !p.leads {
					p.leads = true
					todo = append(todo, p)
				}
			}
		}
	}
}

func (p *party) waiting() bool {
	for _, s := range p.spots {
		if s.place.State == store.Waiting {
			return true
		}
	}
	return false
}

// waits gives the waiting place that the owner wrote of, or nil.
func (p *party) waits(w store.Wait) *spot {
	for _, s := range p.spots {
		if s.place.ID == w.ID && s.row.name == w.Name && s.place.State == store.Waiting {
			return s
		}
	}
	return nil
}

// blocks says whether another member waits behind this place. It counts when all others are live. It begins at the
// end, where those are who wait.
func (s *spot) blocks() bool {
	for i := s.row.need - 1; i > s.at; i-- {
		t := &s.row.spots[i]
		if t.place.State == store.Waiting && !t.owner.live && t.owner != s.owner {
			return true
		}
	}
	return false
}

// blocked says whether another member stands ahead of this place. It counts when all others are live.
func (s *spot) blocked() bool {
	for i := range s.at {
		if t := &s.row.spots[i]; !t.owner.live && t.owner != s.owner {
			return true
		}
	}
	return false
}

package knot

import (
	"slices"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/grant"
)

// tie returns the members of the knot around start, or nil. All other owners count as live afterwards.
//
// It is the greatest such set: a set that is stuck by itself is also stuck as part of a greater one, and is never
// split.
func (w *walk) tie(start *owner) []*owner {
	for _, p := range w.met {
		if !slices.ContainsFunc(p.entries, (*entry).waits) {
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

// reduce frees owners that can continue, until there are no more.
func (w *walk) reduce() {
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

// reduce frees the owners whose waiting claims are granted once all live owners have left.
func (r *queue) reduce() {
	r.dirty = false
	var held grant.Prefix
	for i := range r.entries[:r.need] {
		s := &r.entries[i]
		if s.owner.live {
			continue
		}
		if !held.Admit(s.claim.Demand) {
			return
		}
		if s.waits() {
			held.Remove(s.claim.Demand)
			s.owner.free()
		}
	}
}

// free marks an owner as live. Its claims no longer block others.
func (p *owner) free() {
	p.live = true
	for _, s := range p.entries {
		s.queue.dirty = true
	}
}

// around returns the stuck owners that block start and are blocked by it, directly or through others, and frees the
// other stuck owners. all reports whether there were no others.
func (w *walk) around(start *owner) (members []*owner, all bool) {
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

// forwards marks the stuck owners that start waits for. It reads each queue once, since a claim that is ahead of
// another is also ahead of all claims behind that. That an owner may be ahead of itself makes no difference here.
func (w *walk) forwards(start *owner) {
	for _, r := range w.order {
		r.mark = 0
	}
	start.led = true
	for todo := []*owner{start}; len(todo) > 0; todo = todo[1:] {
		for _, s := range todo[0].entries {
			if !s.waits() {
				continue
			}
			for ; s.queue.mark < s.at; s.queue.mark++ {
				if p := s.queue.entries[s.queue.mark].owner; !p.live && !p.led {
					p.led = true
					todo = append(todo, p)
				}
			}
		}
	}
}

// backwards marks the stuck owners that wait for start.
func (w *walk) backwards(start *owner) {
	for _, r := range w.order {
		r.mark = r.need
	}
	start.leads = true
	for todo := []*owner{start}; len(todo) > 0; todo = todo[1:] {
		for _, s := range todo[0].entries {
			for ; s.queue.mark > s.at+1; s.queue.mark-- {
				behind := &s.queue.entries[s.queue.mark-1]
				if p := behind.owner; behind.waits() && !p.live && !p.leads {
					p.leads = true
					todo = append(todo, p)
				}
			}
		}
	}
}

// waits reports whether the claim waits.
func (s *entry) waits() bool { return s.claim.State == store.Waiting }

// published returns the waiting claim that the owner has published, or nil.
func (p *owner) published(w store.Wait) *entry {
	for _, s := range p.entries {
		if s.claim.ID == w.ID && s.queue.name == w.Name && s.waits() {
			return s
		}
	}
	return nil
}

// blocks reports whether this claim is held and another member waits behind it. It is valid once all other owners are
// live. It begins at the end, where the waiting claims are.
func (s *entry) blocks() bool {
	if s.claim.State != store.Held {
		return false
	}
	for i := s.queue.need - 1; i > s.at; i-- {
		t := &s.queue.entries[i]
		if t.waits() && !t.owner.live && t.owner != s.owner {
			return true
		}
	}
	return false
}

// blocked reports whether another member has a claim ahead of this one. It is valid once all other owners are live.
func (s *entry) blocked() bool {
	for i := range s.at {
		if t := &s.queue.entries[i]; !t.owner.live && t.owner != s.owner {
			return true
		}
	}
	return false
}

package knot

import (
	"slices"

	"github.com/holdfast-go/holdfast/store"
)

// cycle gives a shortest cycle through the victim's claim, the same one whoever looks for it: the search begins
// there, and all that could go either way is ordered by the lines, by names and by IDs, not by how it was gathered.
func (w *web) cycle(victim *spot) []Step {
	for _, r := range w.order {
		r.mark = 0
	}
	home := victim.owner
	for level := reach(nil, victim, home); len(level) > 0; {
		var next []*party
		for _, p := range level {
			for _, wait := range p.sorted() {
				if blocker := wait.behind(home); blocker != nil {
					return steps(wait, blocker, home)
				}
				next = reach(next, wait, home)
			}
		}
		level = next
	}
	return nil
}

// reach adds those who stand ahead of a wait and were not reached before.
func reach(to []*party, wait *spot, home *party) []*party {
	for r := wait.row; r.mark < wait.at; r.mark++ {
		s := &r.spots[r.mark]
		if p := s.owner; !p.live && p != home && p.via == nil {
			p.wait, p.via = wait, s
			to = append(to, p)
		}
	}
	return to
}

// steps writes the way down that the search came, which closed with this last step.
func steps(wait, blocker *spot, home *party) []Step {
	var all []Step
	for {
		s := Step{OwnerID: wait.owner.id, Name: wait.row.name, Waits: *wait.place, Blocker: *blocker.place}
		if wait.place.Owner != nil {
			s.Owner = *wait.place.Owner
		}
		all = append(all, s)
		p := wait.owner
		if p == home {
			slices.Reverse(all)
			return all
		}
		wait, blocker = p.wait, p.via
	}
}

// sorted gives the waits of a party in an order that does not depend on the walk.
func (p *party) sorted() []*spot {
	var waits []*spot
	for _, s := range p.spots {
		if s.place.State == store.Waiting {
			waits = append(waits, s)
		}
	}
	slices.SortFunc(waits, before)
	return waits
}

// behind gives the first place of a party ahead of this one, or nil.
func (s *spot) behind(p *party) *spot {
	for _, t := range p.spots {
		if t.row == s.row && t.at < s.at {
			return t
		}
	}
	return nil
}

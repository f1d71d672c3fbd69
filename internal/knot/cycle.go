package knot

import "slices"

// cycle returns a shortest cycle through the victim's claim. All members find the same one: the search begins at the
// victim, and ties are decided by the order in the queues, by names and by IDs, not by the order of gathering.
func (w *walk) cycle(victim *entry) []Step {
	for _, r := range w.order {
		r.mark = 0
	}
	home := victim.owner
	for level := reach(nil, victim, home); len(level) > 0; {
		var next []*owner
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

// reach adds the owners of claims ahead of a wait that were not reached before.
func reach(to []*owner, wait *entry, home *owner) []*owner {
	for r := wait.queue; r.mark < wait.at; r.mark++ {
		s := &r.entries[r.mark]
		if p := s.owner; !p.live && p != home && p.via == nil {
			p.wait, p.via = wait, s
			to = append(to, p)
		}
	}
	return to
}

// steps returns the steps by which the search came to the last one, which closed the cycle.
func steps(wait, blocker *entry, home *owner) []Step {
	var all []Step
	for {
		s := Step{OwnerID: wait.owner.id, Name: wait.queue.name, Waits: *wait.claim, Blocker: *blocker.claim}
		if wait.claim.Owner != nil {
			s.Owner = *wait.claim.Owner
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

// sorted returns the waits of an owner in an order that does not depend on the walk.
func (p *owner) sorted() []*entry {
	waits := slices.DeleteFunc(slices.Clone(p.entries), func(s *entry) bool { return !s.waits() })
	slices.SortFunc(waits, before)
	return waits
}

// behind returns the first claim of an owner ahead of this one, or nil.
func (s *entry) behind(p *owner) *entry {
	for _, t := range p.entries {
		if t.queue == s.queue && t.at < s.at {
			return t
		}
	}
	return nil
}

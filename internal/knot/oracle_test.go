package knot_test

import (
	"slices"

	"github.com/holdfast-go/holdfast/store"
)

// An oracle knows the whole system at one moment, and decides by trying everything. Sets of owners are bits.
type oracle struct {
	lines  []store.Queue
	owners []string
}

func ownerOf(p store.Entry) string {
	if p.Owner != nil && p.Owner.ID != "" {
		return p.Owner.ID
	}
	return p.ID.String()
}

func newOracle(lines []store.Queue) *oracle {
	o := &oracle{}
	for _, l := range lines {
		o.add(l)
	}
	return o
}

func (o *oracle) add(l store.Queue) {
	o.lines = append(o.lines, l)
	for _, p := range l.Entries {
		if id := ownerOf(p); !slices.Contains(o.owners, id) {
			o.owners = append(o.owners, id)
		}
	}
}

func (o *oracle) bit(p store.Entry) uint { return 1 << slices.Index(o.owners, ownerOf(p)) }

// goesOn returns the owners that can continue if all others have left: those that wait for nothing, or would be
// granted.
func (o *oracle) goesOn(there uint) (can uint) {
	can = there
	for _, l := range o.lines {
		for _, p := range l.Entries {
			if p.State == store.Waiting {
				can &^= o.bit(p)
			}
		}
	}
	for _, l := range o.lines {
		used, fits := int64(0), true
		var head *store.Entry
		for i, p := range l.Entries {
			if o.bit(p)&there == 0 {
				continue
			}
			if head == nil {
				head = &l.Entries[i]
			}
			used += int64(p.Units)
			fits = fits && p.Kind == head.Kind && p.Limit == head.Limit && used <= int64(p.Limit)
			if fits && p.State == store.Waiting {
				can |= o.bit(p)
			}
		}
	}
	return can
}

// ever says which owners can go on in any course of events: one after another goes on and leaves, in any order.
func (o *oracle) ever() (can uint) {
	seen := make([]bool, 1<<len(o.owners))
	var try func(there uint)
	try = func(there uint) {
		if seen[there] {
			return
		}
		seen[there] = true
		now := o.goesOn(there)
		can |= now
		for i := range o.owners {
			if now&(1<<i) != 0 {
				try(there &^ (1 << i))
			}
		}
	}
	try(1<<len(o.owners) - 1)
	return can
}

// knots returns for each owner the greatest set of at least two owners that it belongs to, of which none can continue
// even if all others have left, and of which each waits for every other, through members of the set.
func (o *oracle) knots() []uint {
	best := make([]uint, len(o.owners))
	size := make([]int, len(o.owners))
	for set := uint(1); set < 1<<len(o.owners); set++ {
		n := 0
		for i := range o.owners {
			n += int(set >> i & 1)
		}
		if n < 2 || o.goesOn(set) != 0 || !o.tied(set) {
			continue
		}
		for i := range o.owners {
			if set&(1<<i) != 0 && n > size[i] {
				best[i], size[i] = set, n
			}
		}
	}
	return best
}

// tied says whether each owner of the set waits for every other, over members of the set.
func (o *oracle) tied(set uint) bool {
	n := len(o.owners)
	reach := make([]uint, n)
	for _, l := range o.lines {
		var ahead uint
		for _, p := range l.Entries {
			b := o.bit(p)
			if b&set == 0 {
				continue
			}
			if p.State == store.Waiting {
				reach[slices.Index(o.owners, ownerOf(p))] |= ahead &^ b
			}
			ahead |= b
		}
	}
	for k := range n {
		for i := range n {
			if reach[i]&(1<<k) != 0 {
				reach[i] |= reach[k]
			}
		}
	}
	for i := range n {
		if set&(1<<i) != 0 && reach[i]&set != set {
			return false
		}
	}
	return true
}

// patient returns the waiting claims that are never granted if no owner that continues withdraws other waits: it only
// releases what its owner holds.
func (o *oracle) patient() map[store.ID]bool {
	lines := make([]store.Queue, len(o.lines))
	for i, l := range o.lines {
		lines[i] = store.Queue{Name: l.Name, Entries: slices.Clone(l.Entries)}
	}
	for again := true; again; {
		again = false
		goesOn := make(map[string]bool)
		for i := range lines {
			for _, p := range lines[i].Entries {
				goesOn[ownerOf(p)] = true
			}
		}
		for i := range lines {
			for _, p := range lines[i].Entries {
				if p.State == store.Waiting {
					goesOn[ownerOf(p)] = false
				}
			}
		}
		for i := range lines {
			before := slices.Clone(lines[i].Entries)
			regrant(&lines[i])
			for j, p := range lines[i].Entries {
				if p.State != before[j].State {
					goesOn[ownerOf(p)] = true
				}
			}
		}
		for i := range lines {
			n := len(lines[i].Entries)
			lines[i].Entries = slices.DeleteFunc(lines[i].Entries, func(p store.Entry) bool {
				return p.State == store.Held && goesOn[ownerOf(p)]
			})
			again = again || len(lines[i].Entries) < n
		}
	}
	never := make(map[store.ID]bool)
	for _, l := range lines {
		for _, p := range l.Entries {
			never[p.ID] = true
		}
	}
	return never
}

// naive is the rule that one is tempted to write: any cycle of owners, over anyone ahead, and what is written is
// true.
func (o *oracle) naive(me store.Claim) bool {
	n := len(o.owners)
	reach := make([]uint, n)
	everyone := func(name string, up store.ID) (all uint) {
		for _, l := range o.lines {
			for _, p := range l.Entries {
				if l.Name != name || p.ID == up {
					break
				}
				all |= o.bit(p)
			}
		}
		return all
	}
	start := -1
	for _, l := range o.lines {
		for _, p := range l.Entries {
			i := slices.Index(o.owners, ownerOf(p))
			if p.ID == me.ID {
				start = i
			}
			if p.State == store.Waiting {
				reach[i] |= everyone(l.Name, p.ID)
			}
			for _, w := range p.Waits {
				reach[i] |= everyone(w.Name, w.ID)
			}
			reach[i] &^= 1 << i
		}
	}
	for k := range n {
		for i := range n {
			if reach[i]&(1<<k) != 0 {
				reach[i] |= reach[k]
			}
		}
	}
	return start >= 0 && reach[start]&(1<<start) != 0
}

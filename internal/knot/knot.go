package knot

import (
	"cmp"
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/store"
)

// Beyond these limits a walk ends without a result: it costs too much to be repeated during a wait.
const (
	maxQueues  = 256
	maxEntries = 10_000
)

// A Reader reads the queue of a name.
type Reader func(ctx context.Context, name string) (store.Queue, error)

// A Knot is a set of owners of which none can continue before another of them does.
type Knot struct {
	// Victim is the waiting claim that must give up. It is the one with the largest ID among those that an owner has
	// published on a claim which it holds and another member waits for. Other claims would not do: an owner that holds
	// nothing resolves nothing by giving up, and an owner that publishes nothing does not search for knots.
	Victim store.ID

	// Cycle is a cycle of waits. It begins with the victim. The blocker of each step belongs to the owner of the next
	// step, and the last one's to the owner of the first.
	Cycle []Step

	// marks is what must be equal in two knots for them to be the same.
	marks []mark
}

// A Step is one wait in a cycle.
type Step struct {
	Owner   store.Owner // the owner that waits
	OwnerID string      // identifies the owner, also if it has no ID of its own
	Name    string      // the name of the queue
	Waits   store.Entry // the claim that it waits with
	Blocker store.Entry // a claim ahead of it of the next owner, held or waiting
}

type mark struct {
	id    store.ID
	state store.State
	turn  uint8
	owner string
}

// Found reports whether there is a knot.
func (k Knot) Found() bool { return len(k.Cycle) > 0 }

// Equal reports whether two walks for one claim found the same knot, in which no owner that holds anything continued in
// between. It ignores owners that only wait: they come and go without resolving the knot, so the later of two equal
// knots is the one to report. Two walks that found nothing are equal too.
func (k Knot) Equal(other Knot) bool {
	return k.Victim == other.Victim && slices.Equal(k.marks, other.marks)
}

// Find determines whether the claim me, which waits in the queue of name, is in a knot. It returns the zero Knot if it
// is not, if the claim no longer waits, or if there is too much to read. The error is that of read.
//
// An owner that waits publishes its waits ([store.Claim.Waits]) on the claims that it holds. If it waits with several
// claims, it should publish them on the waiting ones too: a walk that meets only one of these does not know the others,
// of which one may be about to be granted.
func Find(ctx context.Context, read Reader, name string, me store.ID) (Knot, error) {
	w := walk{queues: make(map[string]*queue), parties: make(map[string]*owner)}
	start, err := w.gather(ctx, read, name, me)
	if start == nil || err != nil {
		return Knot{}, err
	}
	members := w.tie(start.owner)
	victim := choose(members)
	if victim == nil {
		return Knot{}, nil
	}
	return Knot{Victim: victim.claim.ID, Cycle: w.cycle(victim), marks: marks(members)}, nil
}

// choose returns the claim that must give up, or nil.
func choose(members []*owner) (victim *entry) {
	for _, p := range members {
		for _, held := range p.entries {
			if !held.blocks() {
				continue
			}
			for _, w := range held.claim.Waits {
				s := p.published(w)
				if s != nil && s.blocked() && (victim == nil || compare(s.claim.ID, victim.claim.ID) > 0) {
					victim = s
				}
			}
		}
	}
	return victim
}

// marks returns the claims of the members that hold something: those that block a member, and those that a member
// blocks.
func marks(members []*owner) []mark {
	var all []mark
	for _, p := range members {
		if !slices.ContainsFunc(p.entries, (*entry).blocks) {
			continue
		}
		for _, s := range p.entries {
			if s.blocks() || s.waits() && s.blocked() {
				all = append(all, mark{s.claim.ID, s.claim.State, s.claim.Turn, p.id})
			}
		}
	}
	slices.SortFunc(all, func(a, b mark) int { return compare(a.id, b.id) })
	return all
}

func compare(a, b store.ID) int { return slices.Compare(a[:], b[:]) }

// before is the order in which the waits of one owner are followed, so that all members report the same cycle.
func before(a, b *entry) int {
	return cmp.Or(cmp.Compare(a.queue.name, b.queue.name), compare(a.claim.ID, b.claim.ID))
}

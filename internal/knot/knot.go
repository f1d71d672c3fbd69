package knot

import (
	"cmp"
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/store"
)

// Beyond these limits a walk gives up without an alarm: it costs too much to be repeated while one waits.
const (
	maxLines  = 256
	maxPlaces = 10_000
)

// A Reader reads the line of a name.
type Reader func(ctx context.Context, name string) (store.Queue, error)

// A Knot is a set of owners none of which can go on before another of them does.
type Knot struct {
	// Victim is the waiting claim that must give up. It is the one with the largest ID among those that an owner
	// has written on a claim that it holds and that another member waits for. Others would not do: who holds
	// nothing unties nothing by giving up, and who writes nothing does not look for knots.
	Victim store.ID

	// Cycle says who waits for whom. It begins with the victim, each step's blocker belongs to the owner of the
	// next, and the last one's to the owner of the first.
	Cycle []Step

	// marks is all that must not have changed for two knots to be one.
	marks []mark
}

// A Step is one owner in a cycle.
type Step struct {
	Owner   store.Owner // who waits
	OwnerID string      // tells owners apart, also those without an ID of their own
	Name    string      // in which line
	Waits   store.Entry // with which claim
	Blocker store.Entry // which claim ahead of it belongs to the next owner, held or waiting
}

type mark struct {
	id    store.ID
	state store.State
	turn  uint8
	owner string
}

// Found says whether there is a knot.
func (k Knot) Found() bool { return len(k.Cycle) > 0 }

// Equal says whether two walks of one claim found the same knot, and nobody in it who holds anything went on in
// between. It does not look at those who only wait: they come and go without untying the knot, so that the later of
// two equal knots is the one to show. Two walks that found nothing are equal too.
func (k Knot) Equal(other Knot) bool {
	return k.Victim == other.Victim && slices.Equal(k.marks, other.marks)
}

// Find looks whether the claim me, which waits in the line of name, waits in a knot. It returns the zero Knot if
// not, if the claim does not wait any more, or if there is too much to read.
//
// An owner that waits writes what it waits for ([store.Claim.Waits]) on what it holds. An owner that waits with
// several claims should write it on the waiting ones too: who meets only one of those knows nothing of the others,
// one of which may be about to be granted.
func Find(ctx context.Context, read Reader, name string, me store.ID) (Knot, error) {
	w := web{rows: make(map[string]*row), parties: make(map[string]*party)}
	start, err := w.gather(ctx, read, name, me)
	if start == nil || err != nil {
		return Knot{}, err
	}
	members := w.tie(start.owner)
	victim := choose(members)
	if victim == nil {
		return Knot{}, nil
	}
	return Knot{Victim: victim.place.ID, Cycle: w.cycle(victim), marks: marks(members)}, nil
}

// choose picks the claim that must give up.
func choose(members []*party) (victim *spot) {
	for _, p := range members {
		for _, held := range p.spots {
			if held.place.State != store.Held || !held.blocks() {
				continue
			}
			for _, w := range held.place.Waits {
				s := p.waits(w)
				if s != nil && s.blocked() && (victim == nil || compare(s.place.ID, victim.place.ID) > 0) {
					victim = s
				}
			}
		}
	}
	return victim
}

// marks lists what the members who hold something hold and wait for.
func marks(members []*party) []mark {
	var all []mark
	for _, p := range members {
		if !slices.ContainsFunc(p.spots, func(s *spot) bool { return s.place.State == store.Held && s.blocks() }) {
			continue
		}
		for _, s := range p.spots {
			if s.place.State == store.Held && s.blocks() || s.place.State == store.Waiting && s.blocked() {
				all = append(all, mark{s.place.ID, s.place.State, s.place.Turn, p.id})
			}
		}
	}
	slices.SortFunc(all, func(a, b mark) int { return compare(a.id, b.id) })
	return all
}

func compare(a, b store.ID) int { return slices.Compare(a[:], b[:]) }

// before is the order in which the waits of one owner are tried, so that all members write the same cycle.
func before(a, b *spot) int {
	return cmp.Or(cmp.Compare(a.row.name, b.row.name), compare(a.place.ID, b.place.ID))
}

package knot_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/knot"
	"github.com/holdfast-go/holdfast/store"
)

// TestWhileQueuesMove: programs continue while queues are read. One walk may then see a knot that never existed. What
// two equal walks saw was so between them, as the second tells it.
func TestWhileQueuesMove(t *testing.T) {
	src := rand.New(rand.NewPCG(1, 6))
	var s *system
	moving := func(ctx context.Context, name string) (store.Queue, error) {
		for range s.src.IntN(12) {
			s.step()
		}
		return s.read(ctx, name)
	}
	walk := func(c store.Claim) knot.Knot {
		k, err := knot.Find(context.Background(), moving, c.Name, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	// so says whether all owners in the cycle are in a knot.
	so := func(o *oracle, knots []uint, k knot.Knot) bool {
		return !slices.ContainsFunc(k.Cycle, func(step knot.Step) bool {
			i := slices.Index(o.owners, step.OwnerID)
			return i < 0 || knots[i] == 0
		})
	}
	wrong, unequal, right := 0, 0, 0
	for range randomSystems * 5 {
		if s == nil || s.chance(20) {
			s = newSystem(src, rules{phantoms: true})
		}
		s.step()
		c, ok := s.pick()
		if !ok {
			continue
		}
		first := walk(c)
		if !first.Found() {
			continue
		}
		between := newOracle(nil)
		for _, l := range s.lines {
			between.add(store.Queue{Name: l.Name, Entries: slices.Clone(l.Entries)})
		}
		knots := between.knots()
		if !so(between, knots, first) {
			wrong++
		}
		second := walk(c)
		switch {
		case !second.Found():
		case !first.Equal(second):
			unequal++
		case !so(between, knots, second):
			t.Fatalf("two walks were wrong: %v\n%s", second.Cycle, write(between.lines))
		default:
			right++
		}
	}
	t.Logf("%d walks saw what was not so; of second walks %d were unequal and %d right", wrong, unequal, right)
	if wrong == 0 || unequal == 0 || right == 0 {
		t.Error("these programs test nothing")
	}
}

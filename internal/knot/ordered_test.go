package knot_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/internal/knot"
	"github.com/holdfast-go/holdfast/store"
)

// pick gives a claim that waits, if there is one.
func (s *system) pick() (c store.Claim, ok bool) {
	all := s.waiting()
	if len(all) == 0 {
		return c, false
	}
	return all[s.src.IntN(len(all))], true
}

// TestOrderGivesNoAlarm: a million random states of programs that take locks in one order give no alarm, though
// many published waits are outdated. The naive rule reports many.
func TestOrderGivesNoAlarm(t *testing.T) {
	var naive atomic.Int64
	workers := runtime.GOMAXPROCS(0)
	t.Run("states", func(t *testing.T) {
		for n := range workers {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				src := rand.New(rand.NewPCG(uint64(n), 5))
				var s *system
				for state := 0; state < orderedStates/workers+1; {
					if s == nil || s.chance(100) {
						s = newSystem(src, rules{ordered: true, phantoms: true})
					}
					s.step()
					c, ok := s.pick()
					if !ok {
						continue
					}
					state++
					k, err := knot.Find(context.Background(), s.read, c.Name, c.ID)
					if err != nil || k.Found() {
						t.Fatalf("%v, %v\n%s", k.Cycle, err, s)
					}
					if state%50 == 0 && newOracle(s.lines).naive(c) {
						naive.Add(1)
					}
				}
			})
		}
	})
	t.Logf("the naive rule has %d false alarms in %d states", naive.Load(), orderedStates/50)
	if naive.Load() == 0 {
		t.Error("the naive rule passes, so the test cannot fail")
	}
}

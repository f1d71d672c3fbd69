package agenda_test

import (
	"math/rand/v2"
	"testing"

	"github.com/holdfast-go/holdfast/internal/agenda"
)

type entry struct {
	due int64
	at  int
}

func (e *entry) SetIndex(i int) { e.at = i }

// TestAgendaAtRandom adds, moves and removes at random, and checks each time that every entry has the right index, and
// that none is due before the first. In the end all are returned in order.
func TestAgendaAtRandom(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		var a agenda.Agenda[*entry]
		var all []*entry
		for range 300 {
			switch n := len(all); {
			case n == 0 || random.IntN(3) == 0:
				e := &entry{due: random.Int64N(50), at: agenda.Off}
				all = append(all, e)
				a.Add(e, e.due)
			case random.IntN(2) == 0:
				e := all[random.IntN(n)]
				e.due = random.Int64N(50)
				a.Move(e.at, e.due)
			default:
				i := random.IntN(n)
				e := all[i]
				if a.Remove(e.at); e.at != agenda.Off {
					t.Fatalf("seed %d: it still stands at %d", seed, e.at)
				}
				all[i] = all[n-1]
				all = all[:n-1]
			}
			check(t, a, all)
		}
		last := int64(0)
		for len(a) > 0 {
			e, due := a.First()
			if due < last || e.due != due {
				t.Fatalf("seed %d: %d comes after %d", seed, due, last)
			}
			last = due
			a.Remove(0)
		}
	}
}

func check(t *testing.T, a agenda.Agenda[*entry], all []*entry) {
	t.Helper()
	if len(a) != len(all) {
		t.Fatalf("%d are on the agenda, want %d", len(a), len(all))
	}
	stands := map[int]bool{}
	for _, e := range all {
		if _, first := a.First(); e.due < first || e.at < 0 || e.at >= len(all) || stands[e.at] {
			t.Fatalf("one due at %d stands at %d, and the first is due at %d", e.due, e.at, first)
		}
		stands[e.at] = true
	}
}

package agenda_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/agenda"
)

type entry struct{ due, at int }

func (e *entry) Before(other *entry) bool { return e.due < other.due }
func (e *entry) StandAt(i int)            { e.at = i }

// TestAgendaAtRandom adds, moves and removes at random, and looks each time that everyone stands where he thinks, and
// nobody before one who is due earlier.
func TestAgendaAtRandom(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		var a agenda.Agenda[*entry]
		for range 300 {
			switch n := len(a); {
			case n == 0 || random.IntN(3) == 0:
				a.Add(&entry{due: random.IntN(50), at: agenda.Off})
			case random.IntN(2) == 0:
				e := a[random.IntN(n)]
				e.due = random.IntN(50)
				a.Fix(e.at)
			default:
				e := a[random.IntN(n)]
				if a.Remove(e.at); e.at != agenda.Off || slices.Contains(a, e) {
					t.Fatalf("seed %d: it is still there", seed)
				}
			}
			check(t, a)
		}
		last := 0
		for len(a) > 0 {
			if a[0].due < last {
				t.Fatalf("seed %d: %d comes after %d", seed, a[0].due, last)
			}
			last = a[0].due
			a.Remove(0)
		}
	}
}

func check(t *testing.T, a agenda.Agenda[*entry]) {
	t.Helper()
	for i, e := range a {
		if e.at != i || i > 0 && e.Before(a[(i-1)/2]) {
			t.Fatalf("%d stands at %d, due %d", i, e.at, e.due)
		}
	}
}

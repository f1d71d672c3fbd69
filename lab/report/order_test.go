package report

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/lab/history"
)

func TestCompareNames(t *testing.T) {
	sorted := []string{
		"", "0", "2", "10", "alice", "bob", "worker", "worker 1", "worker 1b", "worker 2", "worker 10", "wörker",
	}
	for i, a := range sorted {
		for k, b := range sorted {
			if got := compareNames(a, b); got < 0 != (i < k) || got > 0 != (i > k) {
				t.Errorf("%q and %q: %d", a, b, got)
			}
		}
	}
	if compareNames("worker 07", "worker 7") != 0 {
		t.Error("zeros before a number count")
	}
}

// TestOrderOfWorkers checks that a history adds its workers in the order of their names, after those that were there.
func TestOrderOfWorkers(t *testing.T) {
	last := worker("z", "")
	r := &Run{}
	r.Worker(last)
	r.AddHistory(&history.History{
		Holds: []history.Hold{
			exclusive(worker("process 10", "0"), 1, ms(0, 1)), exclusive(last, 2, ms(2, 3)),
			exclusive(worker("process 2", "1"), 3, ms(4, 5)),
		},
		Waits: []history.Wait{{Who: worker("process 2", "0"), Interval: ms(6, 7)}},
	})
	var names []string
	for _, w := range r.Workers {
		names = append(names, w.Who.String())
	}
	if want := []string{"z", "process 2/0", "process 2/1", "process 10/0"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

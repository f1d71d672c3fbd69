package main

import (
	"maps"
	"math"
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(i + 1)
	}
	for _, test := range []struct {
		values []int64
		p      float64
		want   int64
	}{
		{nil, 50, 0},
		{[]int64{7}, 0, 7},
		{[]int64{7}, 50, 7},
		{[]int64{7}, 100, 7},
		{[]int64{1, 2}, 50, 1},
		{[]int64{1, 2}, 51, 2},
		{[]int64{1, 2, 3}, 50, 2},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 99.5, 100},
	} {
		if got := percentile(test.values, test.p); got != test.want {
			t.Errorf("p%v of %v: %d, want %d", test.p, test.values, got, test.want)
		}
		var alike []weighted
		for _, v := range test.values {
			alike = append(alike, weighted{v, 1 / 3.0})
		}
		if got := weightedPercentile(alike, test.p); got != test.want {
			t.Errorf("p%v of %v with equal weights: %d, want %d", test.p, test.values, got, test.want)
		}
	}
}

func TestWeightedPercentile(t *testing.T) {
	values := []weighted{{1, 0.5}, {2, 0.5}, {10, 3}}
	for p, want := range map[float64]int64{12: 1, 12.5: 1, 13: 2, 25: 2, 26: 10, 50: 10} {
		if got := weightedPercentile(values, p); got != want {
			t.Errorf("p%v: %d, want %d", p, got, want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{9, 1}, 5},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 9, 2}, 3},
	} {
		if got := median(test.values); got != test.want {
			t.Errorf("%v: %v, want %v", test.values, got, test.want)
		}
	}
}

func TestFairness(t *testing.T) {
	for _, test := range []struct {
		served []int
		want   float64
	}{
		{nil, 0},
		{[]int{0, 0}, 0},
		{[]int{5}, 1},
		{[]int{5, 10, 8}, 0.5},
		{[]int{10, 0}, 0},
	} {
		if got := fairness(test.served); got != test.want {
			t.Errorf("%v: %v, want %v", test.served, got, test.want)
		}
	}
}

// held makes a worker's tally of holds from begin to end, each asked for 1 before and released 1 after.
func held(process, name int, holds ...[2]int64) tally {
	t := tally{Process: process, Name: name}
	for _, h := range holds {
		t.Holds = append(t.Holds, hold{Asked: h[0] - 1, Begin: h[0], End: h[1], Released: h[1] + 1})
	}
	return t
}

func TestOverlaps(t *testing.T) {
	for _, test := range []struct {
		name    string
		tallies []tally
		want    int
	}{
		{"nobody", nil, 0},
		{"in turns", []tally{held(0, 0, [2]int64{10, 20}, [2]int64{30, 40}), held(1, 0, [2]int64{20, 30})}, 0},
		{"one within another", []tally{held(0, 0, [2]int64{10, 20}), held(1, 0, [2]int64{12, 13})}, 1},
		{"one nanosecond", []tally{held(0, 0, [2]int64{10, 20}), held(1, 0, [2]int64{19, 30})}, 1},
		{"two beside a long one", []tally{held(0, 0, [2]int64{10, 90}), held(1, 0, [2]int64{20, 30}, [2]int64{40, 50})},
			2},
		{"in one process", []tally{held(0, 0, [2]int64{10, 20}), held(0, 0, [2]int64{15, 25})}, 1},
		{"at the same moment", []tally{held(0, 0, [2]int64{10, 20}), held(1, 0, [2]int64{10, 20})}, 1},
		{"other names", []tally{held(0, 0, [2]int64{10, 20}), held(1, 1, [2]int64{10, 20})}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := measure(test.tallies, time.Second)[overlapCount]; got != float64(test.want) {
				t.Errorf("%v overlaps, want %d", got, test.want)
			}
		})
	}
}

func TestHandovers(t *testing.T) {
	// Processes 0 0 1 1 0, of two goroutines in process 0.
	tallies := []tally{
		held(0, 0, [2]int64{10, 20}, [2]int64{90, 99}),
		held(0, 0, [2]int64{22, 30}),
		held(1, 0, [2]int64{35, 50}, [2]int64{60, 70}),
		held(2, 1, [2]int64{36, 37}), // another name
	}
	got := map[int64]int{}
	for _, turns := range histories(tallies) {
		for _, gap := range handovers(turns) {
			got[gap]++
		}
	}
	if want := map[int64]int{5: 1, 20: 1}; !maps.Equal(got, want) {
		t.Errorf("gaps %v, want %v", got, want)
	}
	m := measure(tallies, 2*time.Second)
	if m[handoverRate] != 1 || m[handoverP50] != 0.005 {
		t.Errorf("%v a second, the median takes %v µs; want 1 and 0.005", m[handoverRate], m[handoverP50])
	}
}

func TestDisorder(t *testing.T) {
	for _, test := range []struct {
		tokens []uint64
		want   int
	}{
		{[]uint64{0, 0, 0}, 0},
		{[]uint64{1, 2, 9}, 0},
		{[]uint64{1, 1}, 1},
		{[]uint64{5, 3, 4, 6}, 2},
		{[]uint64{5, 0, 4}, 1},
	} {
		var turns []turn
		for _, token := range test.tokens {
			turns = append(turns, turn{hold: hold{Token: token}})
		}
		if got := disorder(turns); got != test.want {
			t.Errorf("%v: %d, want %d", test.tokens, got, test.want)
		}
	}
}

// One worker is served nine times at once, the other waits in vain to the end.
func TestStarvation(t *testing.T) {
	greedy, starved := tally{}, tally{Process: 1, Unserved: 1_000_000}
	for i := range int64(9) {
		greedy.Holds = append(
			greedy.Holds,
			hold{Asked: 100 * i, Begin: 100*i + 10, End: 100*i + 50, Released: 100*i + 55},
		)
	}
	m := measure([]tally{greedy, starved}, time.Millisecond)
	for name, want := range (metrics{
		throughput: 9000,
		waitP50:    0.010,
		waitP99:    1000, // what was cut off counts
		evenP50:    0.010,
		evenP99:    1000,
		cycleP50:   0.015,
		fairShare:  0,
	}) {
		if math.Abs(m[name]-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, m[name], want)
		}
	}
	// Where the greedy one had a thousand turns, only the count by workers still shows it.
	for len(greedy.Holds) < 1000 {
		greedy.Holds = append(greedy.Holds, greedy.Holds...)
	}
	m = measure([]tally{greedy, starved, starved}, time.Millisecond)
	if m[waitP99] != 0.010 || m[evenP50] != 1000 {
		t.Errorf("p99 is %v and, by workers, p50 is %v; want 0.01 and 1000", m[waitP99], m[evenP50])
	}
}

func TestSummarize(t *testing.T) {
	got := summarize([]metrics{
		{throughput: 10, overlapCount: 0, errorCount: 2},
		nil, // a round that failed
		{throughput: 30, overlapCount: 1, handoverP50: 7},
		{throughput: 20, overlapCount: 0},
	})
	// An overlap in one round must not vanish in a median.
	if want := (metrics{throughput: 20, overlapCount: 1, errorCount: 2, handoverP50: 7}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got.faults() != 3 {
		t.Errorf("%v faults, want 3", got.faults())
	}
}

func TestEveryMetricHasAMeaning(t *testing.T) {
	for _, w := range workloads(false) {
		for _, name := range append(w.columns, w.compared...) {
			if meanings[name].title == "" {
				t.Errorf("%s: %s has none", w.Name, name)
			}
		}
		for _, name := range w.compared {
			if meanings[name].better == neither {
				t.Errorf("%s: %s is compared, and nobody knows which is better", w.Name, name)
			}
		}
	}
}

func TestClock(t *testing.T) {
	a, b := newClock(), newClock()
	for range 1000 {
		// Each is the true time, or later by its slack at most.
		early, late := a.surely(), b.now()
		if early > late {
			t.Fatalf("two clocks of one process differ: surely %d is after %d", early, late)
		}
		if x, y := b.surely(), a.now(); x > y {
			t.Fatalf("two clocks of one process differ: surely %d is after %d", x, y)
		}
	}
}

func TestCompareHalves(t *testing.T) {
	turn := func(asked, cycle int64) hold {
		return hold{Asked: asked, Begin: asked + cycle, End: asked + cycle, Released: asked + cycle}
	}
	before := []hold{turn(0, 10e3), turn(20e3, 20e3), turn(50e3, 30e3)}
	during, after := turn(90e3, 20e3), []hold{turn(110e3, 60e3), turn(170e3, 40e3)}
	m := metrics{}
	compareHalves(m, []tally{{Holds: append(before, during)}, {Holds: after}}, 100e3)
	if m[beforeP50] != 20 || m[afterP50] != 40 || m[afterP99] != 60 || m[afterToBefore] != 2 {
		t.Errorf("%v", m)
	}
	m = metrics{}
	if compareHalves(m, []tally{{Holds: before}}, 100e3); m[beforeP50] != 20 || len(m) != 1 {
		t.Errorf("of a lock that nobody got any more: %v", m)
	}
}

func TestTimeHeld(t *testing.T) {
	turns := func(times ...int64) (all []turn) {
		for i := 0; i < len(times); i += 2 {
			all = append(all, turn{hold: hold{Begin: times[i], End: times[i+1]}})
		}
		return all
	}
	for _, test := range []struct {
		name  string
		turns []turn
		want  int64
	}{
		{"nobody", nil, 0},
		{"one after the other", turns(0, 10, 20, 35), 25},
		{"two at once", turns(0, 10, 5, 12), 12},
		{"one inside another", turns(0, 10, 2, 4, 11, 12), 11},
	} {
		if got := timeHeld(test.turns); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// A hold is one turn of a worker with the lock, in nanoseconds of the shared clock.
type hold struct {
	Asked    int64 // when it began to wait
	Begin    int64 // when it had the lock
	End      int64 // when it began to give it back
	Released int64 // when that was done
	Token    uint64
}

// cycle is the time in acquiring and releasing.
func (h hold) cycle() int64 { return h.Begin - h.Asked + h.Released - h.End }

// A tally is what one worker did.
type tally struct {
	Process    int
	Name       int // which of the workload's names it locked
	Holds      []hold
	Unserved   int64 // how long it had waited in vain at the end; 0 if it had not
	Errors     int
	FirstError string
}

// waits are how long the worker waited each time, the last time perhaps in vain.
func (t *tally) waits() (waits []int64) {
	for _, h := range t.Holds {
		waits = append(waits, h.Begin-h.Asked)
	}
	if t.Unserved > 0 {
		waits = append(waits, t.Unserved)
	}
	return waits
}

// percentile is the smallest value that at least p percent of the sorted values do not exceed.
func percentile(sorted []int64, p float64) int64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// A weighted value counts for so much.
type weighted struct {
	value  int64
	weight float64
}

// weightedPercentile is percentile where values have weights.
func weightedPercentile(sorted []weighted, p float64) int64 {
	var total, sum float64
	for _, w := range sorted {
		total += w.weight
	}
	for _, w := range sorted {
		// Sums of fractions are off by a hair, and that must not make it the next value.
		if sum += w.weight; sum >= p/100*total*(1-1e-9) {
			return w.value
		}
	}
	return 0
}

// median is the middle of the values, or the mean of the two in the middle.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// fairness is how often the least served was served for each time that the most served was: 1 is perfect, and 0 says
// that somebody was not served at all.
func fairness(served []int) float64 {
	if len(served) == 0 || slices.Max(served) == 0 {
		return 0
	}
	return float64(slices.Min(served)) / float64(slices.Max(served))
}

// A turn is a hold in the history of a name.
type turn struct {
	hold
	process int
}

// histories are the turns of each name, in the order in which they began.
func histories(tallies []tally) [][]turn {
	byName := map[int][]turn{}
	for _, t := range tallies {
		for _, h := range t.Holds {
			byName[t.Name] = append(byName[t.Name], turn{h, t.Process})
		}
	}
	var all [][]turn
	for _, turns := range byName {
		slices.SortFunc(turns, func(a, b turn) int { return cmp.Compare(a.Begin, b.Begin) })
		all = append(all, turns)
	}
	return all
}

// overlaps counts the turns that began before one that began earlier had ended.
func overlaps(turns []turn) (n int) {
	latest := int64(math.MinInt64)
	for _, t := range turns {
		if t.Begin < latest {
			n++
		}
		latest = max(latest, t.End)
	}
	return n
}

// disorder counts the turns whose token is not greater than every one before. Turns without a token do not count.
func disorder(turns []turn) (n int) {
	var highest uint64
	for _, t := range turns {
		if t.Token != 0 && t.Token <= highest {
			n++
		}
		highest = max(highest, t.Token)
	}
	return n
}

// handovers gives, for each time that the lock went from one process to another, how long that took: from when the one
// began to give it back to when the other had it.
func handovers(turns []turn) (gaps []int64) {
	for i := 1; i < len(turns); i++ {
		if turns[i].process != turns[i-1].process {
			gaps = append(gaps, turns[i].Begin-turns[i-1].End)
		}
	}
	return gaps
}

// timeHeld is how long somebody held the lock. What two hold at once counts once.
func timeHeld(turns []turn) (sum int64) {
	latest := int64(math.MinInt64)
	for _, t := range turns {
		if end := max(t.End, latest); end > latest {
			sum += end - max(t.Begin, latest)
			latest = end
		}
	}
	return sum
}

// micros is a percentile of times, in microseconds. They need not be sorted.
func micros(times []int64, p float64) float64 {
	slices.Sort(times)
	return float64(percentile(times, p)) / 1e3
}

// measure computes what is reported of a measurement that lasted so long.
func measure(tallies []tally, lasted time.Duration) metrics {
	var served []int
	var waits, cycles, gaps []int64
	var alike []weighted
	var total, faults int
	var used int64
	for _, t := range tallies {
		served = append(served, len(t.Holds))
		total += len(t.Holds)
		faults += t.Errors
		own := t.waits()
		waits = append(waits, own...)
		for _, wait := range own {
			alike = append(alike, weighted{wait, 1 / float64(len(own))})
		}
		for _, h := range t.Holds {
			cycles = append(cycles, h.cycle())
		}
	}
	m := metrics{errorCount: float64(faults)}
	for _, turns := range histories(tallies) {
		m[overlapCount] += float64(overlaps(turns))
		m[disorderCount] += float64(disorder(turns))
		gaps = append(gaps, handovers(turns)...)
		used += timeHeld(turns)
	}
	slices.SortFunc(alike, func(a, b weighted) int { return cmp.Compare(a.value, b.value) })
	m[throughput] = float64(total) / lasted.Seconds()
	m[fairShare] = fairness(served)
	m[inUse] = 100 * float64(used) / float64(lasted)
	m[handoverRate] = float64(len(gaps)) / lasted.Seconds()
	if len(waits) > 0 {
		m[waitP50], m[waitP99] = micros(waits, 50), micros(waits, 99)
		m[evenP50] = float64(weightedPercentile(alike, 50)) / 1e3
		m[evenP99] = float64(weightedPercentile(alike, 99)) / 1e3
	}
	if len(cycles) > 0 {
		m[cycleP50], m[cycleP99] = micros(cycles, 50), micros(cycles, 99)
	}
	if len(gaps) > 0 {
		m[handoverP50], m[handoverP99] = micros(gaps, 50), micros(gaps, 99)
	}
	return m
}

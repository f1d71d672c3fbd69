package demo

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// An account is what a round came to.
type account struct {
	items   int    // that there were
	sold    int    // sales in the stock's own book
	refused int    // writes that the fence refused
	holds   []span // as their holders believed them
	took    time.Duration
}

// add enters what a worker says of a hold that is over.
func (a *account) add(worker int, said *report) {
	said.Hold.worker = worker
	a.holds = append(a.holds, said.Hold)
	if said.Kind == refused {
		a.refused++
	}
}

// oversold is how many items were sold that did not exist.
func (a *account) oversold() int { return max(0, a.sold-a.items) }

// overlaps counts the pairs of holds of two workers that were believed at the same time.
func (a *account) overlaps() (pairs int) {
	holds := slices.SortedFunc(slices.Values(a.holds), func(x, y span) int { return cmp.Compare(x.Begin, y.Begin) })
	for i, first := range holds {
		for _, second := range holds[i+1:] {
			if second.Begin >= first.End {
				break
			}
			if first.worker != second.worker && second.End > second.Begin {
				pairs++
			}
		}
	}
	return pairs
}

// rate is how many were sold in a second.
func (a *account) rate() float64 {
	if a.took <= 0 {
		return 0
	}
	return float64(a.sold) / a.took.Seconds()
}

// showsHarm checks that a round went wrong that is there to go wrong.
func (a *account) showsHarm() error {
	switch {
	case a.oversold() == 0:
		return fmt.Errorf("nothing was oversold: %d of %d were sold", a.sold, a.items)
	case a.overlaps() == 0:
		return errors.New("no two workers believed to be alone at the same time")
	}
	return nil
}

// showsSafety checks that nothing went wrong, and if a worker was stopped, that it was the fence that refused it.
func (a *account) showsSafety(stopped bool) error {
	switch {
	case a.oversold() > 0:
		return fmt.Errorf("%d were oversold", a.oversold())
	case a.sold < a.items:
		return fmt.Errorf("only %d of %d were sold", a.sold, a.items)
	case a.overlaps() > 0:
		return fmt.Errorf("two workers believed to hold the lock at the same time, %d times", a.overlaps())
	case stopped && a.refused == 0:
		return errors.New("the fence refused no write, though a worker was stopped beyond its lease")
	}
	return nil
}

// A moment is a reading of the machine's monotonic clock, which all processes share. The wall clock would do until
// somebody sets it.
type moment time.Duration

// forever is later than every other moment.
const forever = moment(math.MaxInt64)

// at is the moment of a time that was made in this process. The two clocks are read one after the other, so it reads
// again if the process was interrupted in between.
func at(t time.Time) moment {
	for {
		before := now()
		left := time.Until(t)
		if after := now(); after-before < moment(100*time.Microsecond) {
			return after + moment(left)
		}
	}
}

// A span is how long a worker believed that it was alone. On the coordinator's side it says who believed it.
type span struct {
	Begin, End moment
	worker     int
}

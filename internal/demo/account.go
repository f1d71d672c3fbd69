package demo

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// An account is the result of a round.
type account struct {
	items   int    // in stock at the beginning
	sold    int    // sales in the stock's own book
	refused int    // writes that the fence refused
	holds   []span // as their holders believed them
	took    time.Duration
}

// add records a worker's report of a hold that is over.
func (a *account) add(worker int, said *report) {
	said.Hold.worker = worker
	a.holds = append(a.holds, said.Hold)
	if said.Kind == refused {
		a.refused++
	}
}

// oversold returns how many items were sold that did not exist.
func (a *account) oversold() int { return max(0, a.sold-a.items) }

// overlaps counts the pairs of holds of different workers that overlap in time.
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

// rate returns how many items were sold per second.
func (a *account) rate() float64 {
	if a.took <= 0 {
		return 0
	}
	return float64(a.sold) / a.took.Seconds()
}

// showsHarm returns an error if nothing went wrong in a round that should show what goes wrong.
func (a *account) showsHarm() error {
	switch {
	case a.oversold() == 0:
		return fmt.Errorf("nothing was oversold: %d of %d were sold", a.sold, a.items)
	case a.overlaps() == 0:
		return errors.New("no two workers sold at the same time")
	}
	return nil
}

// showsSafety returns an error if anything went wrong. If a worker was stopped, the fence must have refused its write.
func (a *account) showsSafety(stopped bool) error {
	switch {
	case a.oversold() > 0:
		return fmt.Errorf("%d were oversold", a.oversold())
	case a.sold < a.items:
		return fmt.Errorf("only %d of %d were sold", a.sold, a.items)
	case a.overlaps() > 0:
		return fmt.Errorf("two workers believed to hold the lock at the same time, %d times", a.overlaps())
	case stopped && a.refused == 0:
		return errors.New("the fence refused no write, although a worker was stopped beyond its lease")
	}
	return nil
}

// A moment is a reading of the machine's monotonic clock, which all processes share. The wall clock could be set
// meanwhile.
type moment time.Duration

// forever is later than every other moment.
const forever = moment(math.MaxInt64)

// at returns the moment of a time of this process. The two clocks are read one after the other, so it reads them again
// if the process was interrupted in between.
func at(t time.Time) moment {
	for {
		before := now()
		left := time.Until(t)
		if after := now(); after-before < moment(100*time.Microsecond) {
			return after + moment(left)
		}
	}
}

// A span is the time in which a worker believed to hold the lock. The coordinator sets the worker.
type span struct {
	Begin, End moment
	worker     int
}

package main

import (
	"context"
	"fmt"
)

// An account compares what was sold with what was there.
type account struct {
	tally
	before int // in stock
	left   int
	writes int // of the stock
}

// settle lets a crowd buy, and asks the warehouse before and after. Nobody else must buy meanwhile: the account
// would not know of those sales.
func settle(ctx context.Context, s *stock, c *crowd) (account, error) {
	var a account
	var err error
	if a.before, err = s.count(ctx); err != nil {
		return a, err
	}
	earlier, err := s.writes(ctx)
	if err != nil {
		return a, err
	}
	a.tally = c.buy(ctx)
	if ctx.Err() != nil {
		return a, fmt.Errorf("interrupted after %d sales", a.sold)
	}
	if a.left, err = s.count(ctx); err != nil {
		return a, err
	}
	writes, err := s.writes(ctx)
	a.writes = writes - earlier
	return a, err
}

// oversold is how many items were sold that did not exist.
func (a *account) oversold() int { return max(0, a.sold-a.before) }

// rate is how many were sold in a second.
func (a *account) rate() float64 {
	if a.took <= 0 {
		return 0
	}
	return float64(a.sold) / a.took.Seconds()
}

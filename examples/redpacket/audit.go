package main

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
)

// An audit is what the draws add up to.
type audit struct {
	total     int // cents in the packet at first
	paid      int
	left      int
	users     int  // who drew more than once
	shares    int  // that were drawn more than once
	unordered bool // a token was not greater than the one before
}

func (p *packet) audit() audit {
	p.mu.Lock()
	defer p.mu.Unlock()
	var a audit
	for i, cents := range p.shares {
		a.total += cents
		if i >= p.next {
			a.left += cents
		}
	}
	byUser, byShare := map[int]int{}, map[int]int{}
	var last holdfast.Token
	for _, d := range p.draws {
		a.paid += p.shares[d.share]
		byUser[d.user]++
		byShare[d.share]++
		if d.token != 0 && d.token <= last {
			a.unordered = true
		}
		last = d.token
	}
	a.users, a.shares = repeated(byUser), repeated(byShare)
	return a
}

// repeated counts what was counted more than once.
func repeated(counts map[int]int) int {
	n := 0
	for _, count := range counts {
		if count > 1 {
			n++
		}
	}
	return n
}

// problem is nil if everything is in order.
func (a *audit) problem() error {
	switch {
	case a.users > 0 || a.shares > 0:
		return fmt.Errorf("WRONG: users who drew twice: %d, shares drawn twice: %d", a.users, a.shares)
	case a.paid+a.left != a.total:
		return fmt.Errorf("WRONG: %s paid and %s left of %s", money(a.paid), money(a.left), money(a.total))
	case a.unordered:
		return errors.New("WRONG: a token did not rise")
	}
	return nil
}

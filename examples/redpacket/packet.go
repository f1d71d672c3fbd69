package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast"
)

// A packet has shares of money, and the draws so far. It stands for two tables of a database without
// transactions: each call is safe by itself, but a draw takes several.
type packet struct {
	mu     sync.Mutex
	shares []int // in cents
	next   int   // the first share that nobody has
	draws  []draw
}

// A draw is a share that a user got.
type draw struct {
	user  int
	share int            // its index
	token holdfast.Token // of the lease under which it was drawn; 0: there was none
}

func (p *packet) hasDrawn(user int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.draws, func(d draw) bool { return d.user == user })
}

// nextShare is the first share that nobody has. It is not ok if all are drawn.
func (p *packet) nextShare() (share int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next, p.next < len(p.shares)
}

// record writes a draw. It believes what it is told, as a table does.
func (p *packet) record(d draw) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draws = append(p.draws, d)
	p.next = d.share + 1
}

// split divides cents into n random shares of at least one cent. It needs a cent for each.
//
// It cuts what remains after that cent at n-1 random places. Whatever the places are, the pieces add up.
func split(cents, n int) []int {
	rest := cents - n
	cuts := make([]int, n-1, n)
	for i := range cuts {
		cuts[i] = rand.IntN(rest + 1)
	}
	slices.Sort(cuts)
	shares := make([]int, 0, n)
	from := 0
	for _, to := range append(cuts, rest) {
		shares = append(shares, 1+to-from)
		from = to
	}
	return shares
}

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

package main

import (
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
	for _, d := range p.draws {
		if d.user == user {
			return true
		}
	}
	return false
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

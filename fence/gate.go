package fence

import (
	"sync"

	"github.com/holdfast-go/holdfast"
)

// A Gate is a fence for data in this process. The zero value lets the first token pass. It is safe for many
// goroutines, and must not be copied after first use.
type Gate struct {
	mu   sync.Mutex
	seen holdfast.Token
}

// Enter raises the fence to token, or returns a *StaleError. A new holder calls it before its first read. From then on
// the tokens of earlier holders are refused.
func (g *Gate) Enter(token holdfast.Token) error {
	return g.Do(token, func() error { return nil })
}

// Do checks and raises the fence and calls write, as one step: no other token passes the gate meanwhile. It returns
// write's error, or a *StaleError if write was not called.
func (g *Gate) Do(token holdfast.Token, write func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if token == 0 || token < g.seen {
		return &StaleError{Token: token, Seen: g.seen}
	}
	if !token.Shared() {
		g.seen = token
	}
	return write()
}

// Seen returns the newest exclusive token that passed, or the floor that was set.
func (g *Gate) Seen() holdfast.Token {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen
}

// SetFloor makes the gate refuse every token below this one. It is for operators who replace a store and know the
// highest token of the old one. It can also lower the fence, and reset it with 0. Late writes of earlier holders then
// pass, so make sure that there are none.
func (g *Gate) SetFloor(token holdfast.Token) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = token
}

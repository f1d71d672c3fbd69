package storetest

import (
	"context"
	"errors"
	"sync"
)

// A Pipe is the Link of a store that lives in this process. The store's client half hands it each request as a
// function to run at the server, and its server half hands it each push as a function to run at the client.
//
// It starts no goroutine. A message that nothing holds back runs in the goroutine that sent it, and one that was
// held back runs in the goroutine that lets it go.
type Pipe struct {
	requests, replies, pushes gate

	mu     sync.Mutex
	broken chan struct{} // closed while the link is cut
	cut    bool
	killed bool
	drop   bool
}

var _ Link = (*Pipe)(nil)

var errCut = errors.New("the link is cut")

// NewPipe makes a Pipe through which everything passes at once.
func NewPipe() *Pipe { return &Pipe{broken: make(chan struct{})} }

// Call delivers a request and its answer: it runs do at the server, at most once. It returns nil when do has run
// and its answer has arrived. After any error do may have run, or run later, or never.
func (p *Pipe) Call(ctx context.Context, do func()) error {
	broken := p.connection()
	if closed(broken) {
		return errCut
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	answered := make(chan struct{})
	p.requests.pass(func() {
		do()
		p.replies.pass(func() { close(answered) })
	})
	select {
	case <-answered:
	case <-broken:
	case <-ctx.Done():
		return ctx.Err()
	}
	// An answer may have been let go after the cut. It belongs to a connection that is no more.
	if closed(broken) {
		return errCut
	}
	return nil
}

// Push delivers a push: it runs do at the client, now, later or never.
func (p *Pipe) Push(do func()) {
	p.mu.Lock()
	lost := p.cut || p.drop
	p.mu.Unlock()
	if !lost {
		p.pushes.pass(do)
	}
}

// HoldRequests implements Link.
func (p *Pipe) HoldRequests() (release func()) { return p.requests.hold() }

// HoldReplies implements Link.
func (p *Pipe) HoldReplies() (release func()) { return p.replies.hold() }

// HoldPushes implements Link.
func (p *Pipe) HoldPushes() (release func()) { return p.pushes.hold() }

// DropPushes implements Link.
func (p *Pipe) DropPushes(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop = on
}

// Cut implements Link.
func (p *Pipe) Cut() {
	p.mu.Lock()
	if !p.cut {
		p.cut = true
		close(p.broken)
	}
	p.mu.Unlock()
	p.requests.clear()
	p.replies.clear()
	p.pushes.clear()
}

// Heal implements Link.
func (p *Pipe) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut && !p.killed {
		p.cut = false
		p.broken = make(chan struct{})
	}
}

// Kill implements Link.
func (p *Pipe) Kill() {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	p.Cut()
}

// connection is closed when the connection of this moment is cut.
func (p *Pipe) connection() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// A gate lets messages of one direction through, or holds them back. The zero value is open.
type gate struct {
	mu    sync.Mutex
	holds int      // how many hold it shut
	held  []func() // what waits, in order of arrival
	busy  bool     // what waited is being let go
}

// pass delivers a message, now or when nothing holds the gate shut. It never overtakes one that was held back.
func (g *gate) pass(deliver func()) {
	g.mu.Lock()
	if g.holds > 0 || g.busy {
		g.held = append(g.held, deliver)
		g.mu.Unlock()
		return
	}
	g.mu.Unlock()
	deliver()
}

// hold shuts the gate until release.
func (g *gate) hold() (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds++
	return sync.OnceFunc(func() {
		g.mu.Lock()
		g.holds--
		g.mu.Unlock()
		g.letGo()
	})
}

// letGo delivers what waits. A delivery may send and receive itself, so the lock is free meanwhile.
func (g *gate) letGo() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy {
		return // somebody else is at it
	}
	g.busy = true
	for g.holds == 0 && len(g.held) > 0 {
		deliver := g.held[0]
		g.held = g.held[1:]
		g.mu.Unlock()
		deliver()
		g.mu.Lock()
	}
	g.busy = false
}

// clear loses what waits.
func (g *gate) clear() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = nil
}

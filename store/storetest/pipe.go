package storetest

import (
	"context"
	"errors"
	"sync"
)

// A Pipe is the Link of a store inside this process. The client half of the store passes it each request as a function
// to run at the server, and the server half passes it each push as a function to run at the client.
//
// It starts no goroutine. A message that nothing holds back runs in the goroutine that sent it, and one that was held
// back runs in the goroutine that releases it.
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

// NewPipe returns a Pipe that delivers everything at once.
func NewPipe() *Pipe { return &Pipe{broken: make(chan struct{})} }

// Call delivers a request and its response: it runs do at the server, at most once. It returns nil when do has run and
// its response has arrived. After an error, do may have run, may run later, or may never run.
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
	// A response may have been released after the cut. It belongs to the broken connection.
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

// connection returns a channel that is closed when the current connection is cut.
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
	holds int      // how many holds keep it closed
	held  []func() // the messages that wait, in order of arrival
	busy  bool     // the messages are being delivered
}

// pass delivers a message, now or when the gate is open. It never overtakes one that was held back.
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

// hold closes the gate until release.
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

// letGo delivers the messages that wait. A delivery may itself send and receive, so the mutex is not held meanwhile.
func (g *gate) letGo() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy {
		return // another goroutine delivers them
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

// clear discards the messages that wait.
func (g *gate) clear() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = nil
}

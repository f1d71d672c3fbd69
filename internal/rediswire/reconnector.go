package rediswire

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/pause"
)

// DialTimeout bounds an attempt to connect.
const DialTimeout = 5 * time.Second

// ErrNotInUse is the error of Get after Close.
var ErrNotInUse = errors.New("the node is not in use any more")

// A Reconnector holds one connection at a time, and makes another when it has ended. W is a *Connection, or a store's
// type around one.
type Reconnector[W connection] struct {
	Connect func() (W, error)
	Made    func(W) // is told of each new one; may be nil

	Tasks sync.WaitGroup // its goroutines, and those of its connections

	current atomic.Pointer[W]

	mu     sync.Mutex
	dial   *dial[W] // under way; nil: none
	closed bool
}

// connection is a connection that a Reconnector can hold.
type connection interface {
	comparable
	Dead() <-chan struct{}
	End(why error)
}

// A dial is a connection attempt that all callers share. It ends by itself: the context of one caller does not end it
// for the others.
type dial[W connection] struct {
	done       chan struct{}
	connection W
	err        error
}

// Current returns the last connection, which may be dead. It reports false if there was none.
func (p *Reconnector[W]) Current() (w W, ok bool) {
	if current := p.current.Load(); current != nil {
		return *current, true
	}
	return w, false
}

// Live returns the current connection. It reports false if there is none, or if it is known to be dead.
func (p *Reconnector[W]) Live() (w W, ok bool) {
	if w, ok = p.Current(); !ok {
		return w, false
	}
	select {
	case <-w.Dead():
		return w, false
	default:
		return w, true
	}
}

// Get returns a connection that is not known to be dead, and makes one if necessary. The error is that of the attempt
// or of ctx, or ErrNotInUse.
func (p *Reconnector[W]) Get(ctx context.Context) (w W, err error) {
	if w, ok := p.Live(); ok {
		return w, nil
	}
	d := p.dialing()
	select {
	case <-d.done:
		return d.connection, d.err
	case <-ctx.Done():
		return w, ctx.Err()
	}
}

// dialing returns the attempt that is in progress, or starts one.
func (p *Reconnector[W]) dialing() *dial[W] {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dial != nil {
		return p.dial
	}
	d := &dial[W]{done: make(chan struct{})}
	if p.closed {
		d.err = ErrNotInUse
		close(d.done)
		return d
	}
	p.dial = d
	p.Tasks.Go(func() {
		w, err := p.Connect()
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case p.closed: // who waited knows already
			if err == nil {
				w.End(ErrNotInUse)
			}
			return
		case err == nil:
			p.current.Store(&w)
			if p.Made != nil {
				p.Made(w)
			}
		}
		d.connection, d.err = w, err
		p.dial = nil
		close(d.done)
	})
	return d
}

// The pauses of Reconnect: from the first to the last, doubling.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
)

// Reconnect calls attempt repeatedly until life ends. The pauses in between grow while it fails.
func Reconnect(life context.Context, attempt func() error) {
	for wait := firstPause; ; wait = min(2*wait, lastPause) {
		if attempt() == nil {
			wait = firstPause
		}
		if !pause.For(life, wait) {
			return
		}
	}
}

// Close ends the connection, and prevents another. Get returns ErrNotInUse from now on, also to callers that wait.
func (p *Reconnector[W]) Close() {
	p.mu.Lock()
	p.closed = true
	if p.dial != nil {
		p.dial.err = ErrNotInUse
		close(p.dial.done)
		p.dial = nil
	}
	w, ok := p.Current()
	p.mu.Unlock()
	if ok {
		w.End(ErrNotInUse)
	}
}

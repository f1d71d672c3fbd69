package rediswire

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// DialTimeout bounds an attempt to connect.
const DialTimeout = 5 * time.Second

// ErrUnplugged is why there is no connection when nobody is to have one any more.
var ErrUnplugged = errors.New("the node is not in use any more")

// A Plug has one wire at a time, and gets another when it broke. W is a *Wire, or what a store has made of one.
type Plug[W wired] struct {
	Connect func() (W, error)
	Made    func(W) // is told of each new one; may be nil

	Tasks sync.WaitGroup // its goroutines, and those of its wires

	current atomic.Pointer[W]

	mu     sync.Mutex
	dial   *dial[W] // under way; nil: none
	closed bool
}

type wired interface {
	comparable
	Dead() <-chan struct{}
	End(why error)
}

// A dial is an attempt that all wait for who need a wire. It ends by itself: nobody's context can end it for others.
type dial[W wired] struct {
	done chan struct{}
	wire W
	err  error
}

// Current is the wire that there was last, if there was one. It may be dead.
func (p *Plug[W]) Current() (w W, ok bool) {
	if current := p.current.Load(); current != nil {
		return *current, true
	}
	return w, false
}

// Live is the current wire, if it was not known to be dead a moment ago.
func (p *Plug[W]) Live() (w W, ok bool) {
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

// Get gives a wire that was not known to be dead a moment ago.
func (p *Plug[W]) Get(ctx context.Context) (w W, err error) {
	if w, ok := p.Live(); ok {
		return w, nil
	}
	d := p.dialing()
	select {
	case <-d.done:
		return d.wire, d.err
	case <-ctx.Done():
		return w, ctx.Err()
	}
}

// dialing joins the attempt that is under way, or starts one.
func (p *Plug[W]) dialing() *dial[W] {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dial != nil {
		return p.dial
	}
	d := &dial[W]{done: make(chan struct{})}
	if p.closed {
		d.err = ErrUnplugged
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
				w.End(ErrUnplugged)
			}
			return
		case err == nil:
			p.current.Store(&w)
			if p.Made != nil {
				p.Made(w)
			}
		}
		d.wire, d.err = w, err
		p.dial = nil
		close(d.done)
	})
	return d
}

// How long Reconnect pauses: from the first to the last, doubling.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
)

// Reconnect calls attempt again and again until life ends. The pauses in between grow while it fails.
func Reconnect(life context.Context, attempt func() error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		if attempt() == nil {
			pause = firstPause
		}
		select {
		case <-time.After(pause):
		case <-life.Done():
			return
		}
	}
}

// Unplug ends the wire, and lets nobody make another. Who waits for one waits no longer.
func (p *Plug[W]) Unplug() {
	p.mu.Lock()
	p.closed = true
	if p.dial != nil {
		p.dial.err = ErrUnplugged
		close(p.dial.done)
		p.dial = nil
	}
	w, ok := p.Current()
	p.mu.Unlock()
	if ok {
		w.End(ErrUnplugged)
	}
}

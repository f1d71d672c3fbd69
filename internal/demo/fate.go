package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/pause"
)

// overtake is by how many items the others get ahead of the worker that is stopped.
const overtake = 5

// A fate is what happens to a worker in the middle of a sale.
type fate int

const (
	paid    fate = iota // nothing: its payment is taken
	killed              // it never continues
	stopped             // it continues when the others have overtaken it
)

// A plot decides the fate of workers. The first that sells an item of at most killAt is killed. The first after it that
// sells an item of at most stopAt is stopped. Every number is sold at least once, so both always happen.
type plot struct {
	killAt, stopAt int
	victim         int // the worker that was killed
	late           *latecomer
}

// A latecomer is the worker that was stopped.
type latecomer struct {
	worker, item int
	since        moment
	overtaken    chan struct{} // closed when the others are ahead
	othersSold   int           // while it was stopped
	awake        bool
	slept        time.Duration
	reported     bool
}

func newPlot(items int) plot { return plot{killAt: items * 3 / 4, stopAt: items / 2} }

// choose decides what happens to a worker that is about to sell an item.
func (p *plot) choose(worker, item int) fate {
	switch {
	case p.victim == 0 && item <= p.killAt:
		p.victim = worker
		return killed
	case p.victim != 0 && p.late == nil && item <= p.stopAt:
		p.late = &latecomer{worker: worker, item: item, since: now(), overtaken: make(chan struct{})}
		return stopped
	}
	return paid
}

// countSale counts a sale of another worker while the latecomer is stopped. Once the others have sold an item that is
// overtake lower, the latecomer's item has been sold by another: whatever it writes is wrong.
func (l *latecomer) countSale(worker int, said *report) {
	if l == nil || l.awake || worker == l.worker || said.Hold.End < l.since {
		return
	}
	l.othersSold++
	if said.Item <= max(1, l.item-overtake+1) {
		l.wake()
		close(l.overtaken)
	}
}

func (l *latecomer) wake() { l.awake, l.slept = true, time.Duration(now()-l.since) }

// describe returns a line about what happened to the latecomer.
func (l *latecomer) describe(outcome reportKind, pausable bool) string {
	what := "was stopped"
	if !pausable {
		what = "waited for its payment"
	}
	write := "its late write was taken"
	switch {
	case outcome == refused:
		write = "the fence refused its late write"
	case l.othersSold == 0:
		write = "its write was taken"
	}
	return fmt.Sprintf("worker %d %s at item %d for %v, the others sold %d; %s", l.worker, what, l.item,
		l.slept.Round(10*time.Millisecond), l.othersSold, write)
}

// A stoppable is a process that can be paused.
type stoppable interface {
	pause() error
	resume() error
}

// holdUp stops a worker until the others have overtaken it.
func (r *round) holdUp(ctx context.Context, p stoppable) error {
	late := r.plot.late
	if !r.pausable {
		// The process cannot be stopped. Only its payment takes long, and its lease is renewed meanwhile.
		select {
		case <-late.overtaken:
		case <-time.After(2 * r.order.TTL):
			r.mu.Lock()
			defer r.mu.Unlock()
			late.wake()
		case <-ctx.Done():
		}
		return context.Cause(ctx)
	}
	for {
		if err := p.pause(); err != nil {
			return err
		}
		select {
		case <-late.overtaken:
			return p.resume()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(2*r.takeover + time.Second):
		}
		// It was stopped within a call that blocks all others, such as the renewal of its lease in a transaction of
		// SQLite. Let it finish that, and stop it again.
		if err := p.resume(); err != nil {
			return err
		}
		pause.For(ctx, payment)
	}
}

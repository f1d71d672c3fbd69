package demo

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/pause"
)

const (
	payment  = 5 * time.Millisecond   // the time of a sale between reading and writing
	patience = 15 * time.Second       // how long nothing may happen, in addition to the time of a takeover
	frame    = 100 * time.Millisecond // how often the picture is drawn
)

// A round is one sale of the whole stock. The fields above mu do not change.
type round struct {
	name     string // short, for the table
	title    string
	order    order // of every worker, except its number
	workers  int
	command  func(context.Context) *exec.Cmd
	pausable bool
	takeover time.Duration // how long after its holder's death the lock is free again, at most
	screen   screen

	begin    chan struct{} // closed when all workers are ready
	watchdog *time.Timer

	mu      sync.Mutex
	plot    plot
	picture picture
	ready   int
	began   moment
	account account
}

// run sells everything, and completes the account. When it returns, no worker is left.
func (r *round) run(ctx context.Context) error {
	items := r.account.items
	if err := makeStock(ctx, r.order.Stock, items); err != nil {
		return err
	}
	r.plot = newPlot(items)
	r.picture = picture{items: items, left: items, workers: make([]state, r.workers)}
	r.begin = make(chan struct{})

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	longest := patience + 2*r.takeover
	r.watchdog = time.AfterFunc(longest, func() { cancel(fmt.Errorf("nothing happened for %v", longest)) })
	defer r.watchdog.Stop()

	r.employ(ctx, cancel)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	book, err := openStock(r.order.Stock, false)
	if err != nil {
		return err
	}
	defer book.close() //nolint:errcheck // it was only read
	r.account.sold, err = book.count(ctx)
	return err
}

// employ starts the workers and serves them until all have ended. The first error ends them all.
func (r *round) employ(ctx context.Context, cancel context.CancelCauseFunc) {
	var servers, painter sync.WaitGroup
	painting, stop := context.WithCancel(ctx)
	painter.Go(func() { r.paint(painting) })
	defer painter.Wait()
	defer stop()
	defer servers.Wait()
	for n := range r.workers {
		o := r.order
		o.Worker = n + 1
		p, err := startProcess(ctx, r.command, &o)
		if err != nil {
			cancel(err)
			return
		}
		servers.Go(func() {
			if err := r.attend(ctx, p); err != nil {
				cancel(err)
			}
		})
	}
}

// attend receives the reports of a worker and responds to them. When it returns, the worker has ended.
func (r *round) attend(ctx context.Context, p *process) error {
	for {
		var said report
		err := p.reports.Decode(&said)
		if err == nil {
			err = r.respond(ctx, p, &said)
		}
		if err != nil {
			if err = p.end(err); r.isVictim(p) {
				return nil
			}
			return err
		}
	}
}

func (r *round) respond(ctx context.Context, p *process, said *report) error {
	r.watchdog.Reset(patience + 2*r.takeover)
	switch said.Kind {
	case ready:
		r.arrive()
		select {
		case <-r.begin:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		return p.goOn()
	case paying:
		return r.collect(ctx, p, said)
	default:
		r.note(p.number, said)
		return nil
	}
}

// arrive counts the workers that are ready. They begin together.
func (r *round) arrive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ready++; r.ready == r.workers {
		r.began = now()
		close(r.begin)
	}
}

// collect takes the payment of a worker, or kills or stops the worker, as the plot decides.
func (r *round) collect(ctx context.Context, p *process, said *report) (err error) {
	r.mu.Lock()
	next := r.plot.choose(p.number, said.Item)
	r.picture.workers[p.number-1] = state{next, paying, said.Item}
	if next == killed {
		said.Hold.End = min(said.Hold.End, now()) // a dead worker holds nothing
		r.account.add(p.number, said)
	}
	r.mu.Unlock()

	switch next {
	case killed:
		r.screen.say(fmt.Sprintf("  worker %d was killed at item %d", p.number, said.Item))
		return p.kill()
	case stopped:
		err = r.holdUp(ctx, p)
	default:
		pause.For(ctx, payment)
	}
	if err != nil {
		return err
	}
	return p.goOn()
}

// note records a report in the account and the picture.
func (r *round) note(worker int, said *report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.picture.workers[worker-1] = state{paid, said.Kind, said.Item}
	if said.Kind == waiting {
		return
	}
	r.account.add(worker, said)
	late := r.plot.late
	if said.Kind == sold {
		r.picture.left = said.Item - 1
		r.account.took = time.Duration(now() - r.began)
		late.countSale(worker, said)
	}
	if late != nil && late.worker == worker && !late.reported {
		late.reported = true
		r.screen.say("  " + late.describe(said.Kind, r.pausable))
	}
}

func (r *round) isVictim(p *process) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plot.victim == p.number
}

// paint draws the state of the round periodically until ctx is done.
func (r *round) paint(ctx context.Context) {
	tick := time.NewTicker(frame)
	defer tick.Stop()
	for {
		r.mu.Lock()
		p := r.picture
		p.workers = slices.Clone(p.workers)
		r.mu.Unlock()
		r.screen.draw(&p)
		select {
		case <-tick.C:
		case <-ctx.Done():
			r.screen.draw(nil)
			return
		}
	}
}

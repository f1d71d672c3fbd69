package frame

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/store"
)

// Rounds runs one piece of work for all callers that request it at the same time. A caller is served by a round that
// began after its request, so that the result of the round is never older than the request. A goroutine exists only
// while a round is in progress.
type Rounds struct {
	frame *Frame
	work  func() error

	mu      sync.Mutex
	next    *Round // for callers that ask while a round is under way
	running bool
}

// A Round is one run of the work.
type Round struct {
	done chan struct{}
	err  error
}

// NewRounds returns Rounds of work, which must return when f's Life has ended.
func NewRounds(f *Frame, work func() error) *Rounds { return &Rounds{frame: f, work: work} }

// Request returns the next round. It begins as soon as no other is in progress. If the store is closed, the error of
// the round is ErrClosed.
func (r *Rounds) Request() *Round {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = &Round{done: make(chan struct{})}
	}
	next := r.next
	if !r.running {
		if r.running = r.frame.Go(r.run); !r.running {
			next.err, r.next = store.ErrClosed, nil
			close(next.done)
		}
	}
	return next
}

// Await waits until the round has ended, and returns its error, or the error of ctx if that ends first.
func (r *Round) Await(ctx context.Context) error {
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run runs rounds until none is requested.
func (r *Rounds) run() {
	for {
		r.mu.Lock()
		now := r.next
		r.next = nil
		r.running = now != nil
		r.mu.Unlock()
		if now == nil {
			return
		}
		now.err = r.work()
		close(now.done)
	}
}

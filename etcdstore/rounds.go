package etcdstore

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/store"
)

// Rounds is work that all who ask for it at the same time share. Whoever asks is served by a round that began after he
// asked: so what it finds is never older than his question. There is a goroutine only while there is work.
type rounds struct {
	work  func() error
	tasks *sync.WaitGroup

	mu      sync.Mutex
	next    *round // for those who ask while one is under way
	running bool
	ended   bool
}

type round struct {
	done chan struct{}
	err  error
}

// ask sees to it that a round begins, and returns it.
func (r *rounds) ask() *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return &closedRound
	}
	if r.next == nil {
		r.next = &round{done: make(chan struct{})}
	}
	if !r.running {
		r.running = true
		r.tasks.Go(r.run)
	}
	return r.next
}

// end lets no further round begin.
func (r *rounds) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}

// closedRound is what there is after the end.
var closedRound = round{done: closedChannel(), err: store.ErrClosed}

func closedChannel() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// await waits for a round to end.
func (r *round) await(ctx context.Context) error {
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *rounds) run() {
	for {
		r.mu.Lock()
		now := r.next
		r.next = nil
		if now == nil {
			r.running = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		now.err = r.work()
		close(now.done)
	}
}

package main

import (
	"context"
	"sync"
)

// gates let goroutines of one process that want the same name take turns, for locks that belong to a session of the
// process: two of its goroutines would both have the lock.
type gates struct {
	byName sync.Map // of channels with room for one
}

// enter waits for the turn.
func (g *gates) enter(ctx context.Context, name string) (leave func(), err error) {
	gate := g.of(name)
	select {
	case gate <- struct{}{}:
		return func() { <-gate }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (g *gates) of(name string) chan struct{} {
	gate, ok := g.byName.Load(name)
	if !ok {
		gate, _ = g.byName.LoadOrStore(name, make(chan struct{}, 1))
	}
	return gate.(chan struct{})
}

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

// hold waits for the turn, locks, and gives the turn up with the lock.
func (g *gates) hold(ctx context.Context, name string, lock func() (unlock func() error, err error)) (lease, error) {
	gate := g.of(name)
	select {
	case gate <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	unlock, err := lock()
	if err != nil {
		<-gate
		return nil, err
	}
	return leaseFunc(func() error {
		defer func() { <-gate }()
		return unlock()
	}), nil
}

func (g *gates) of(name string) chan struct{} {
	gate, ok := g.byName.Load(name)
	if !ok {
		gate, _ = g.byName.LoadOrStore(name, make(chan struct{}, 1))
	}
	return gate.(chan struct{})
}

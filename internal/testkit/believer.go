package testkit

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Believer returns a store that is broken on purpose: once it has held a claim, it reports the claim as held for ever,
// whatever s reports. If a fault is injected, the checkers must detect that.
func Believer(s store.Store) store.Store {
	return &believer{Store: s, held: map[store.ID]store.Status{}}
}

// RegisterBeliever registers the scheme believer: a Believer of a Redis server, whose scheme must be registered too.
// The processes of a test call it once. A SQLite file is not suitable: a process that is stopped inside a transaction
// stops all others, and then nothing can be shown.
func RegisterBeliever() { RegisterBroken("believer", "redis", Believer) }

// RegisterBroken registers a scheme for stores of another scheme that broken makes of them.
func RegisterBroken(scheme, of string, broken func(store.Store) store.Store) {
	store.Register(scheme, func(ctx context.Context, at store.Location) (store.Store, error) {
		at.Scheme = of
		s, err := store.Open(ctx, at)
		if err != nil {
			return nil, err
		}
		return broken(s), nil
	})
}

type believer struct {
	store.Store

	mu   sync.Mutex
	held map[store.ID]store.Status
}

// Join implements store.Store.
func (b *believer) Join(ctx context.Context, c store.Claim) (store.Status, error) {
	status, err := b.Store.Join(ctx, c)
	return b.believe(c.ID, status), err
}

// Keep implements store.Store.
func (b *believer) Keep(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
	statuses, err := b.Store.Keep(ctx, cs)
	if err != nil {
		statuses = make([]store.Status, len(cs))
	}
	for i, c := range cs {
		if statuses[i] = b.believe(c.ID, statuses[i]); statuses[i].State == store.Held {
			statuses[i].Err = nil
		} else if err != nil {
			statuses[i].Err = err
		}
	}
	return statuses, nil
}

// Leave implements store.Store.
func (b *believer) Leave(ctx context.Context, c store.Claim) error {
	b.mu.Lock()
	delete(b.held, c.ID)
	b.mu.Unlock()
	return b.Store.Leave(ctx, c)
}

// Notify implements store.Store.
func (b *believer) Notify(fn func(store.ID, store.Status)) {
	b.Store.Notify(func(id store.ID, status store.Status) {
		if b.believe(id, status).State == status.State {
			fn(id, status)
		}
	})
}

// believe records that a claim is held, and replaces every later status of it with held.
func (b *believer) believe(id store.ID, status store.Status) store.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	if status.State == store.Held {
		b.held[id] = status
	}
	if held, ok := b.held[id]; ok {
		status = held
		status.Until = time.Now().Add(time.Hour)
	}
	return status
}

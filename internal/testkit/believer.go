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

// RegisterBeliever registers the scheme believer: a Believer of a Redis server, whose scheme must be registered too. The
// processes of a test call it once. A SQLite file is not suitable: a process that is stopped inside a transaction stops
// all others, and then nothing can be shown.
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
	standing, err := b.Store.Join(ctx, c)
	return b.believe(c.ID, standing), err
}

// Keep implements store.Store.
func (b *believer) Keep(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
	standings, err := b.Store.Keep(ctx, cs)
	if err != nil {
		standings = make([]store.Status, len(cs))
	}
	for i, c := range cs {
		if standings[i] = b.believe(c.ID, standings[i]); standings[i].State == store.Held {
			standings[i].Err = nil
		} else if err != nil {
			standings[i].Err = err
		}
	}
	return standings, nil
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
	b.Store.Notify(func(id store.ID, standing store.Status) {
		if b.believe(id, standing).State == standing.State {
			fn(id, standing)
		}
	})
}

// believe records that a claim is held, and replaces every later status of it with held.
func (b *believer) believe(id store.ID, standing store.Status) store.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	if standing.State == store.Held {
		b.held[id] = standing
	}
	if held, ok := b.held[id]; ok {
		standing = held
		standing.Until = time.Now().Add(time.Hour)
	}
	return standing
}

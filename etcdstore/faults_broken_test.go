package etcdstore_test

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Two stores that are broken on purpose. Where the faults of this package's tests meet them, the checkers must see it.
const (
	optimistScheme = "etcd+optimist"
	believerScheme = "etcd+believer"
)

func registerBroken() {
	for scheme, breaks := range map[string]func(store.Store) store.Store{
		optimistScheme: func(s store.Store) store.Store { return &optimist{Store: s} },
		believerScheme: func(s store.Store) store.Store { return &believer{Store: s, held: map[store.ID]store.Standing{}} },
	} {
		store.Register(scheme, func(ctx context.Context, at store.Location) (store.Store, error) {
			at.Scheme = "etcd"
			s, err := store.Open(ctx, at)
			if err != nil {
				return nil, err
			}
			return breaks(s), nil
		})
	}
}

// An optimist takes for granted what is not answered soon: claims that wait are held, it thinks, if Keep fails.
type optimist struct{ store.Store }

// Keep implements store.Store.
func (o *optimist) Keep(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
	soon, cancel := context.WithTimeout(ctx, sessionTTL/10)
	defer cancel()
	standings, err := o.Store.Keep(soon, cs)
	if err == nil {
		return standings, nil
	}
	standings = make([]store.Standing, len(cs))
	for i, c := range cs {
		standings[i] = store.Standing{State: store.Held, Ticket: c.Ticket, Until: time.Now().Add(c.TTL)}
	}
	return standings, nil
}

// A believer goes on believing that it holds what it has held, whatever it hears or does not hear.
type believer struct {
	store.Store

	mu   sync.Mutex
	held map[store.ID]store.Standing
}

// Join implements store.Store.
func (b *believer) Join(ctx context.Context, c store.Claim) (store.Standing, error) {
	standing, err := b.Store.Join(ctx, c)
	return b.believe(c.ID, standing), err
}

// Keep implements store.Store.
func (b *believer) Keep(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
	standings, err := b.Store.Keep(ctx, cs)
	if err != nil {
		standings = make([]store.Standing, len(cs))
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
func (b *believer) Notify(fn func(store.ID, store.Standing)) {
	b.Store.Notify(func(id store.ID, standing store.Standing) {
		if b.believe(id, standing).State == standing.State {
			fn(id, standing)
		}
	})
}

// believe notes that a claim is held, and makes of every other answer about it that it still is.
func (b *believer) believe(id store.ID, standing store.Standing) store.Standing {
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

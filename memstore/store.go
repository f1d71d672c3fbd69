package memstore

import (
	"context"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// MinTTL and MaxTTL bound the ttl of a claim.
const (
	MinTTL = 10 * time.Millisecond
	MaxTTL = 7 * 24 * time.Hour
)

// margin is how much earlier than the server a client believes its claim to be over. Both read one clock, so
// that it only has to cover the moment between two instructions.
const margin = time.Millisecond

// A Store is one client's connection to a Server. It implements store.Store.
type Store struct {
	server *Server
	prefix string
	tenant *tenant
	wire   Wire
	notify atomic.Pointer[func(store.ID, store.Standing)]
	closed atomic.Bool
	failed atomic.Bool // a call failed: pushes may have been lost with it
}

var _ store.Store = (*Store)(nil)

// An Option is a setting of a connection.
type Option func(*Store)

// Prefix separates tenants: stores with different prefixes never see each other's names.
func Prefix(prefix string) Option { return func(st *Store) { st.prefix = prefix } }

// Over puts a wire between the store and its server.
func Over(w Wire) Option { return func(st *Store) { st.wire = w } }

// New makes a store with a server of its own.
func New() *Store { return NewServer().Connect() }

// Connect makes a store for one more client of this server.
func (s *Server) Connect(options ...Option) *Store {
	st := &Store{server: s}
	for _, o := range options {
		o(st)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.tenant = s.tenant(st.prefix)
	s.stores[st] = struct{}{}
	return st
}

// Join implements store.Store.
func (st *Store) Join(ctx context.Context, c store.Claim) (store.Standing, error) {
	if err := st.check(ctx, c.Name); err != nil {
		return store.Standing{}, err
	}
	if st.wire == nil {
		return st.server.join(st, &c)
	}
	return st.joinOverWire(ctx, c)
}

// joinOverWire is a function of its own so that c moves to the heap only here.
func (st *Store) joinOverWire(ctx context.Context, c store.Claim) (store.Standing, error) {
	sent := time.Now()
	standing, err := overWire(ctx, st, c.TTL, func() (store.Standing, error) { return st.server.join(st, &c) })
	standing.Until = until(standing, sent, c.TTL)
	return standing, err
}

// Keep implements store.Store.
func (st *Store) Keep(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
	ttl := MaxTTL
	for i := range cs {
		if err := st.check(ctx, cs[i].Name); err != nil {
			return nil, err
		}
		ttl = min(ttl, cs[i].TTL)
	}
	if st.wire == nil {
		return st.server.keep(st, cs), nil
	}
	cs = slices.Clone(cs) // a request that lands late must not read what is the caller's again
	sent := time.Now()
	standings, err := overWire(ctx, st, ttl, func() ([]store.Standing, error) { return st.server.keep(st, cs), nil })
	for i := range standings {
		standings[i].Until = until(standings[i], sent, cs[i].TTL)
	}
	return standings, err
}

// Leave implements store.Store.
func (st *Store) Leave(ctx context.Context, c store.Claim) error {
	if err := st.check(ctx, c.Name); err != nil {
		return err
	}
	if st.wire == nil {
		return st.server.leave(st, &c)
	}
	return st.leaveOverWire(ctx, c)
}

func (st *Store) leaveOverWire(ctx context.Context, c store.Claim) error {
	_, err := overWire(ctx, st, c.TTL, func() (struct{}, error) { return struct{}{}, st.server.leave(st, &c) })
	return err
}

// Break implements store.Store.
func (st *Store) Break(ctx context.Context, name string, ticket uint64) error {
	if err := st.check(ctx, name); err != nil {
		return err
	}
	_, err := overWire(ctx, st, askTimeout, func() (struct{}, error) {
		return struct{}{}, st.server.breakTicket(st.tenant, name, ticket)
	})
	return err
}

// Line implements store.Store.
func (st *Store) Line(ctx context.Context, name string) (store.Line, error) {
	if err := st.check(ctx, name); err != nil {
		return store.Line{}, err
	}
	return overWire(ctx, st, askTimeout, func() (store.Line, error) { return st.server.line(st.tenant, name) })
}

// Names implements store.Store.
func (st *Store) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := st.alive(ctx); err != nil {
			yield("", err)
			return
		}
		names, err := overWire(ctx, st, askTimeout, func() ([]string, error) { return st.server.names(st.tenant, prefix), nil })
		if err != nil {
			yield("", err)
			return
		}
		for _, name := range names {
			if !yield(name, nil) {
				return
			}
		}
	}
}

// Notify implements store.Store.
func (st *Store) Notify(fn func(store.ID, store.Standing)) { st.notify.Store(&fn) }

// Abilities implements store.Store.
func (st *Store) Abilities() store.Abilities {
	return store.Abilities{
		Store:        "memory",
		Identity:     st.server.identity + "/" + st.prefix,
		Line:         true,
		Shared:       true,
		Grace:        true,
		MinTTL:       MinTTL,
		MaxTTL:       MaxTTL,
		TakeoverTTLs: 1,
		ExactWake:    true,
		Tokens:       store.SurvivesRestart | store.SurvivesClockBack,
	}
}

// Close implements store.Store. Claims that were not left stand until their ttl has passed.
func (st *Store) Close() error {
	st.closed.Store(true)
	st.server.mu.Lock()
	delete(st.server.stores, st)
	st.server.mu.Unlock()
	return nil
}

// check refuses a call that must not be made.
func (st *Store) check(ctx context.Context, name string) error {
	if err := store.CheckName(name); err != nil {
		return err
	}
	return st.alive(ctx)
}

func (st *Store) alive(ctx context.Context) error {
	if st.closed.Load() {
		return store.ErrClosed
	}
	return ctx.Err()
}

// deliver passes a push on to the client.
func (st *Store) deliver(id store.ID, standing store.Standing) {
	notify := st.notify.Load()
	if notify == nil || st.closed.Load() {
		return
	}
	if st.wire == nil {
		(*notify)(id, standing)
		return
	}
	st.wire.Push(func() { (*notify)(id, standing) })
}

// until is the local instant up to which a claim stands whose Join or Keep was sent then (rule 5).
func until(s store.Standing, sent time.Time, ttl time.Duration) time.Time {
	if s.State == store.Gone {
		return time.Time{}
	}
	return sent.Add(ttl - margin)
}

package memstore

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// MinTTL and MaxTTL bound the ttl of a claim.
const (
	MinTTL = 10 * time.Millisecond
	MaxTTL = 7 * 24 * time.Hour
)

// A Store is one client's connection to a Server. It implements store.Store.
type Store struct {
	server *Server
	prefix string
	tenant *tenant
	wire   Network
	frame  *frame.Frame
}

var _ store.Store = (*Store)(nil)

// An Option is a setting of a connection.
type Option func(*Store)

// Prefix separates tenants: stores with different prefixes never see each other's names.
func WithPrefix(prefix string) Option { return func(st *Store) { st.prefix = prefix } }

// Over puts a wire between the store and its server.
func WithNetwork(w Network) Option { return func(st *Store) { st.wire = w } }

// New makes a store with a server of its own.
func New() *Store { return NewServer().Connect() }

// Connect makes a store for one more client of this server.
func (s *Server) Connect(options ...Option) *Store {
	st := &Store{server: s, frame: frame.New(frame.Config{Name: "memory", Drift: frame.OneClock, PushesWithCalls: true})}
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
func (st *Store) Join(ctx context.Context, c store.Claim) (store.Status, error) {
	if err := st.frame.Check(ctx, c.Name); err != nil {
		return store.Status{}, err
	}
	if st.wire == nil {
		return st.server.join(st, &c)
	}
	return st.joinOverWire(ctx, c)
}

// joinOverWire is a function of its own so that c moves to the heap only here.
func (st *Store) joinOverWire(ctx context.Context, c store.Claim) (store.Status, error) {
	call := st.frame.Call(ctx, c.TTL)
	defer call.End()
	standing, err := overWire(&call, st.wire, func() (store.Status, error) { return st.server.join(st, &c) })
	standing.Until = call.Until(standing.State, c.TTL)
	return standing, err
}

// Keep implements store.Store.
func (st *Store) Keep(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
	limit, err := st.frame.CheckAll(ctx, cs)
	if err != nil || len(cs) == 0 {
		return nil, err
	}
	if st.wire == nil {
		return st.server.keep(st, cs), nil
	}
	cs = slices.Clone(cs) // a request that lands late must not read what is the caller's again
	call := st.frame.Call(ctx, limit)
	defer call.End()
	standings, err := overWire(&call, st.wire, func() ([]store.Status, error) { return st.server.keep(st, cs), nil })
	for i := range standings {
		standings[i].Until = call.Until(standings[i].State, cs[i].TTL)
	}
	return standings, err
}

// Leave implements store.Store.
func (st *Store) Leave(ctx context.Context, c store.Claim) error {
	if err := st.frame.Check(ctx, c.Name); err != nil {
		return err
	}
	if st.wire == nil {
		return st.server.leave(st, &c)
	}
	return st.leaveOverWire(ctx, c)
}

func (st *Store) leaveOverWire(ctx context.Context, c store.Claim) error {
	call := st.frame.Call(ctx, c.TTL)
	defer call.End()
	_, err := overWire(&call, st.wire, func() (struct{}, error) { return struct{}{}, st.server.leave(st, &c) })
	return err
}

// Break implements store.Store.
func (st *Store) Break(ctx context.Context, name string, ticket uint64) error {
	call, err := st.frame.Begin(ctx, name, frame.AskTimeout)
	if err != nil {
		return err
	}
	defer call.End()
	_, err = overWire(&call, st.wire, func() (struct{}, error) {
		return struct{}{}, st.server.breakTicket(st.tenant, name, ticket)
	})
	return err
}

// Line implements store.Store.
func (st *Store) Queue(ctx context.Context, name string) (store.Queue, error) {
	call, err := st.frame.Begin(ctx, name, frame.AskTimeout)
	if err != nil {
		return store.Queue{}, err
	}
	defer call.End()
	return overWire(&call, st.wire, func() (store.Queue, error) { return st.server.line(st.tenant, name) })
}

// Names implements store.Store.
func (st *Store) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return st.frame.Names(ctx, func(ctx context.Context) ([]string, error) {
		call := st.frame.Call(ctx, frame.AskTimeout)
		defer call.End()
		return overWire(&call, st.wire, func() ([]string, error) { return st.server.names(st.tenant, prefix), nil })
	})
}

// Notify implements store.Store.
func (st *Store) Notify(fn func(store.ID, store.Status)) {
	st.frame.Notify(func(id store.ID, status store.Status) {
		if id == store.Everyone { // changes may have been lost, too
			st.server.changedFor(st)
		}
		fn(id, status)
	})
}

// Abilities implements store.Store.
func (st *Store) Abilities() store.Abilities {
	return store.Abilities{
		Store:        "memory",
		Identity:     st.server.identity + "/" + st.prefix,
		Queue:        true,
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
	st.frame.Shut()
	st.frame.End()
	st.server.mu.Lock()
	delete(st.server.stores, st)
	st.server.mu.Unlock()
	return nil
}

// deliver passes a push on to the client.
func (st *Store) deliver(id store.ID, standing store.Status) {
	if st.wire == nil {
		st.frame.Push(id, standing)
		return
	}
	st.wire.Push(func() { st.frame.Push(id, standing) })
}

package memstore

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
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
	server  *Server
	prefix  string
	tenant  *tenant
	network Network
	frame   *frame.Frame

	faultsMu sync.Mutex             // serialises changes of faults
	faults   atomic.Pointer[faults] // nil: none were ever set
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Detacher = (*Store)(nil)
)

// An Option is a setting of a connection.
type Option func(*Store)

// WithPrefix separates tenants: stores with different prefixes never see each other's names.
func WithPrefix(prefix string) Option { return func(st *Store) { st.prefix = prefix } }

// WithNetwork carries all messages between the store and its server over n.
func WithNetwork(n Network) Option { return func(st *Store) { st.network = n } }

// New makes a store with a server of its own.
func New() *Store { return NewServer().Connect() }

// Connect makes a store for one more client of this server.
func (s *Server) Connect(options ...Option) *Store {
	st := &Store{
		server: s,
		frame:  frame.New(frame.Config{Name: "memory", Drift: frame.OneClock, PushesWithCalls: true}),
	}
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
	if st.route() == nil {
		return st.server.join(st, &c)
	}
	return st.joinOverNetwork(ctx, c)
}

// joinOverNetwork is a function of its own so that c moves to the heap only here.
func (st *Store) joinOverNetwork(ctx context.Context, c store.Claim) (store.Status, error) {
	call := st.frame.Call(ctx, c.TTL)
	defer call.End()
	status, err := send(&call, st.route(), func() (store.Status, error) { return st.server.join(st, &c) })
	status.Until = call.Until(status.State, c.TTL)
	return status, err
}

// Keep implements store.Store.
func (st *Store) Keep(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
	limit, err := st.frame.CheckAll(ctx, cs)
	if err != nil || len(cs) == 0 {
		return nil, err
	}
	if st.route() == nil {
		return st.server.keep(st, cs), nil
	}
	cs = slices.Clone(cs) // a request that arrives late must not read the caller's slice
	call := st.frame.Call(ctx, limit)
	defer call.End()
	statuses, err := send(&call, st.route(), func() ([]store.Status, error) { return st.server.keep(st, cs), nil })
	for i := range statuses {
		statuses[i].Until = call.Until(statuses[i].State, cs[i].TTL)
	}
	return statuses, err
}

// Leave implements store.Store.
func (st *Store) Leave(ctx context.Context, c store.Claim) error {
	if err := st.frame.Check(ctx, c.Name); err != nil {
		return err
	}
	if st.route() == nil {
		return st.server.leave(st, &c)
	}
	return st.leaveOverNetwork(ctx, c)
}

// leaveOverNetwork is Leave over the store's Network.
func (st *Store) leaveOverNetwork(ctx context.Context, c store.Claim) error {
	call := st.frame.Call(ctx, c.TTL)
	defer call.End()
	_, err := send(&call, st.route(), func() (struct{}, error) { return struct{}{}, st.server.leave(st, &c) })
	return err
}

// Break implements store.Store.
func (st *Store) Break(ctx context.Context, name string, ticket uint64) error {
	call, err := st.frame.Begin(ctx, name, frame.AskTimeout)
	if err != nil {
		return err
	}
	defer call.End()
	_, err = send(&call, st.route(), func() (struct{}, error) {
		return struct{}{}, st.server.breakTicket(st.tenant, name, ticket)
	})
	return err
}

// Queue implements store.Store.
func (st *Store) Queue(ctx context.Context, name string) (store.Queue, error) {
	call, err := st.frame.Begin(ctx, name, frame.AskTimeout)
	if err != nil {
		return store.Queue{}, err
	}
	defer call.End()
	return send(&call, st.route(), func() (store.Queue, error) { return st.server.inspect(st.tenant, name) })
}

// Names implements store.Store.
func (st *Store) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return st.frame.Names(ctx, func(ctx context.Context) ([]string, error) {
		call := st.frame.Call(ctx, frame.AskTimeout)
		defer call.End()
		return send(&call, st.route(), func() ([]string, error) { return st.server.names(st.tenant, prefix), nil })
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
		Detach:       true,
		MinTTL:       MinTTL,
		MaxTTL:       MaxTTL,
		TakeoverTTLs: 1,
		Tokens:       store.SurvivesRestart | store.SurvivesClockBack,
	}
}

// Close implements store.Store. Claims that were not released expire with their ttl.
func (st *Store) Close() error {
	st.frame.Shut()
	st.frame.End()
	st.server.mu.Lock()
	delete(st.server.stores, st)
	st.server.mu.Unlock()
	return nil
}

// deliver passes a notification on to the client.
func (st *Store) deliver(id store.ID, status store.Status) {
	n := st.route()
	if n == nil {
		st.frame.Push(id, status)
		return
	}
	n.Push(func() { st.frame.Push(id, status) })
}

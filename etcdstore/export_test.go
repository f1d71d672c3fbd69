package etcdstore

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/store"
)

// OpenThrough opens a store as a URL with these endpoints would, by other ways to them, and with these options of its
// connections.
func OpenThrough(ctx context.Context, endpoints, ways []string, prefix string, ttl time.Duration, options ...grpc.DialOption) (*Store, error) {
	return connect(ctx, called(endpoints), clientv3.Config{Endpoints: ways, DialOptions: options}, settings{prefix: prefix, ttl: ttl})
}

// LineKey is the beginning of the keys of a name's line, for a store without prefix.
func LineKey(name string) string {
	k := newKeySpace("")
	return k.line(name)
}

// IDIn is the ID of the claim whose key has this value.
func IDIn(value []byte) (store.ID, error) {
	r, err := decode(value)
	return r.ID, err
}

// LeaveOf is what Leave of this claim does to etcd, to be done once more.
func LeaveOf(s *Store, c store.Claim) func(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.places[c.ID].debt()
	return func(ctx context.Context) error { return s.takeOut(ctx, []debt{d}) }
}

// KeyOf is where a claim sits.
func KeyOf(s *Store, c store.Claim) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.places[c.ID]; p != nil {
		return p.key
	}
	return ""
}

// Seats are those of a store without a server.
type Seats struct {
	store   Store
	session session
}

// NewSeats makes some.
func NewSeats() *Seats {
	return &Seats{store: Store{keys: newKeySpace(""), seats: map[string]*seats{}}, session: session{lease: 7}}
}

// Take is the key for a claim.
func (s *Seats) Take(name string, id store.ID) string { return s.store.seat(&s.session, name, id) }

// Free gives the seat of a claim back.
func (s *Seats) Free(name string, id store.ID) { s.store.vacate(name, id) }

// Names is how many names somebody sits at.
func (s *Seats) Names() int { return len(s.store.seats) }

// Deafen makes the watches that there are tell nothing any more.
func Deafen(s *Store) {
	s.lookout.mu.Lock()
	defer s.lookout.mu.Unlock()
	for _, w := range s.lookout.watches {
		w.told = func(*mvccpb.Event) {}
	}
}

// Watches is how many watches there are.
func Watches(s *Store) int {
	s.lookout.mu.Lock()
	defer s.lookout.mu.Unlock()
	return len(s.lookout.watches)
}

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
func OpenThrough(ctx context.Context, endpoints, ways []string, prefix string, ttl time.Duration,
	options ...grpc.DialOption) (*Store, error) {
	config := clientv3.Config{Endpoints: ways, DialOptions: options}
	return connect(ctx, endpoints, settings{prefix: prefix, ttl: ttl, config: config})
}

// LineKey is the beginning of the keys of a name's queue, for a store without prefix.
func LineKey(name string) string {
	k := newKeySpace("")
	return k.queue(name)
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
	p := s.claims[c.ID].Position
	return func(ctx context.Context) error { return s.deleteKeys(ctx, []position{p}) }
}

// KeyOf is a claim's key.
func KeyOf(s *Store, c store.Claim) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.claims[c.ID]; known != nil {
		return known.Key
	}
	return ""
}

// Seats are the keys of a session's claims, without a server.
type Seats struct{ slots keySlots }

// NewSeats makes some.
func NewSeats() *Seats { return &Seats{slots: keySlots{}} }

// Take is the key for a claim.
func (s *Seats) Take(name string, id store.ID) string {
	k := newKeySpace("")
	return k.claim(name, &lease{name: "7"}, s.slots.reserve(name, id))
}

// Free releases the key of a claim.
func (s *Seats) Free(name string, id store.ID) { s.slots.release(name, id) }

// Names is how many names have keys in use.
func (s *Seats) Names() int { return len(s.slots) }

// Deafen makes the watches that there are tell nothing any more.
func Deafen(s *Store) {
	s.watcher.mu.Lock()
	defer s.watcher.mu.Unlock()
	for _, w := range s.watcher.watches {
		w.told = func(*mvccpb.Event) {}
	}
}

// Watches is how many watches there are.
func Watches(s *Store) int {
	s.watcher.mu.Lock()
	defer s.watcher.mu.Unlock()
	return len(s.watcher.watches)
}

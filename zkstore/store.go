package zkstore

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/sessionserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

// DefaultTTL is the ttl of a session if none is set.
const DefaultTTL = 30 * time.Second

// MaxTTL is the greatest ttl of a session. Servers allow less unless they are configured otherwise.
const MaxTTL = 24 * time.Hour

// A Store is one client's session in ZooKeeper. It implements store.Store.
type Store struct {
	*sessionqueue.Store[*client]
	servers  *servers
	identity string
}

var _ store.Store = (*Store)(nil)

func newStore(f *frame.Frame, set *settings) *Store {
	z := &servers{settings: set, layout: set.layout()}
	s := &Store{
		Store: sessionqueue.New(sessionqueue.Config[*client]{
			Frame: f, Server: z, TTL: set.ttl, WatchOwn: true, WatchTwo: !z.layout.foreign(),
			Foreign: z.layout.foreign(),
		}),
		servers: z,
	}
	z.receiver = s.Store
	return s
}

// Abilities implements store.Store.
func (s *Store) Abilities() store.Abilities {
	_, ownLine := s.servers.layout.(ownLayout)
	curator, _ := s.servers.layout.(curatorLayout)
	able := sessionserver.Abilities(s.Frame, s.identity, s.TTL, MaxTTL)
	able.Queue, able.Shared, able.ReadersOnly = true, ownLine || curator.shared, curator.shared
	// A new leader gives every session its whole ttl again. The leader rounds up to its tick, and receives the last
	// report about a session within another; the rest is for elections.
	able.TakeoverTTLs, able.TakeoverPlus = 2, 2*s.servers.tick+5*time.Second
	if !ownLine {
		able.Alternative = "layout=curator-rw has readers, and Holdfast's own layout has all"
	}
	return able
}

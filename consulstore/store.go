package consulstore

import (
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
	"github.com/holdfast-go/holdfast/store/sessionline"
)

// DefaultTTL is the ttl of a session for which none is given.
const DefaultTTL = 15 * time.Second

// MaxTTL is the greatest ttl of a session that Consul takes.
const MaxTTL = 24 * time.Hour

// A Store is one client's session in Consul. It implements store.Store.
type Store struct {
	*sessionline.Store[*session]
	consul   *consul
	identity string
}

var _ store.Store = (*Store)(nil)

func newStore(f *frame.Frame, set *settings) *Store {
	d := newDialer(set.network, set.addresses, set.tls)
	c := &consul{
		agent: newAgent(set, d, 0), renewals: newAgent(set, d, 1), keys: newKeySpace(set.prefix), frame: f,
	}
	s := &Store{
		Store: sessionline.New(sessionline.Config[*session]{
			Frame: f, Server: c, TTL: set.ttl, MaxUpdates: maxUpdates, RenewApart: true,
		}),
		consul: c,
	}
	c.told = s.Store
	return s
}

// Abilities implements store.Store.
func (s *Store) Abilities() store.Abilities {
	return store.Abilities{
		Store:      s.Frame.Name,
		Identity:   s.identity,
		Line:       true,
		Shared:     true,
		MinTTL:     s.TTL,
		MaxTTL:     MaxTTL,
		SessionTTL: s.TTL,
		// Consul ends a session when it was not renewed for twice its ttl, and a new leader counts from its election.
		TakeoverTTLs: 4,
		TakeoverPlus: 5 * time.Second,
		ExactWake:    true,
		Tokens:       store.SurvivesRestart | store.SurvivesClockBack | store.SurvivesFailover,
	}
}

// Close implements store.Store.
func (s *Store) Close() error {
	err := s.Store.Close()
	s.consul.client.CloseIdleConnections()
	s.consul.renewals.client.CloseIdleConnections()
	return err
}

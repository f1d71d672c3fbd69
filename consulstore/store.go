package consulstore

import (
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/sessionserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

// DefaultTTL is the ttl of a session if none is set.
const DefaultTTL = 15 * time.Second

// MaxTTL is the greatest ttl of a session that Consul accepts.
const MaxTTL = 24 * time.Hour

// A Store is one client's session in Consul. It implements store.Store, store.Watcher, store.Lister and store.Detacher;
// in plain mode, what needs a queue returns ErrUnsupported.
type Store struct {
	mode
	consul *consul
}

// A mode implements locks with keys and sessions: by a queue of claims, or by one key for each lock.
type mode interface {
	store.Store
	store.Watcher
	store.Lister
	store.Detacher
}

// newStore returns a store with these settings. It sends nothing yet.
func newStore(set *settings) *Store {
	f := frame.New(frame.Config{
		Name: "consul at " + strings.Join(set.addresses, ","), Drift: frame.Clocks, Explain: explain,
	})
	set.hide = f.HideLatest
	d := newDialer(set.network, set.addresses, set.tls)
	c := &consul{
		agent:    newAgent(set, d, callConnections),
		queries:  newAgent(set, d, queryConnections),
		renewals: newAgent(set, d, renewalConnections),
		keys:     newKeySpace(set.prefix),
		frame:    f,
	}
	if set.plain {
		return &Store{newPlainMode(c), c}
	}
	return &Store{newQueueMode(c), c}
}

// Abilities implements store.Store.
func (c *consul) Abilities() store.Abilities {
	able := sessionserver.Abilities(c.frame, c.identity, c.ttl, MaxTTL)
	able.Queue, able.Shared, able.Detach = !c.plain, !c.plain, !c.plain
	// Consul ends a session when it was not renewed for twice its ttl, and a new leader counts from its election.
	able.TakeoverTTLs, able.TakeoverPlus = 4, 5*time.Second
	if c.plain {
		able.Alternative = "mode=queue, which is the default, has them"
	}
	return able
}

// Close implements store.Store.
func (c *consul) Close() error {
	c.sessions.Close()
	c.closeIdle()
	return nil
}

// closeIdle closes the connections that no request uses.
func (c *consul) closeIdle() {
	for _, a := range []*agent{c.agent, c.queries, c.renewals} {
		a.client.CloseIdleConnections()
	}
}

// Close implements store.Store.
func (s *Store) Close() error { return s.consul.Close() }

// queueMode keeps a queue of claims for each name.
type queueMode struct {
	sessionqueue.Detacher[*session]
	consul *consul
}

// newQueueMode returns the mode with queues. It does not begin a session yet.
func newQueueMode(c *consul) *queueMode {
	s := sessionqueue.New(sessionqueue.Config[*session]{
		Frame: c.frame, Server: c, TTL: c.ttl, MaxUpdates: maxUpdates, RenewApart: true,
	})
	c.sessions, c.changed = s.Sessions, s.Changed
	return &queueMode{sessionqueue.Detacher[*session]{Store: s}, c}
}

// Abilities implements store.Store.
func (m *queueMode) Abilities() store.Abilities { return m.consul.Abilities() }

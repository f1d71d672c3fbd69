package consulstore

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

// DefaultTTL is the ttl of a session if none is set.
const DefaultTTL = 15 * time.Second

// MaxTTL is the greatest ttl of a session that Consul accepts.
const MaxTTL = 24 * time.Hour

// A Store is one client's session in Consul. It implements store.Store and store.Detacher.
type Store struct {
	mode
}

// A mode implements locks with keys and sessions: by a queue of claims, or by one key for each lock.
type mode interface {
	store.Store

	// start begins the mode's session and its renewal. It returns ErrClosed after Close.
	start(ctx context.Context, identity string) error
}

// newConsul returns the connection to Consul with these settings. It sends nothing yet.
func newConsul(f *frame.Frame, set *settings) *consul {
	d := newDialer(set.network, set.addresses, set.tls)
	return &consul{
		agent:    newAgent(set, d, callConnections),
		queries:  newAgent(set, d, queryConnections),
		renewals: newAgent(set, d, renewalConnections),
		keys:     newKeySpace(set.prefix),
		frame:    f,
	}
}

// newMode returns the mode that the settings select.
func newMode(c *consul) mode {
	if c.plain {
		return newPlainMode(c)
	}
	return newQueueMode(c)
}

// queueMode keeps a queue of claims for each name.
type queueMode struct {
	sessionqueue.Detacher[*session]
	consul   *consul
	identity string
}

// newQueueMode returns the mode with queues. It does not begin a session yet.
func newQueueMode(c *consul) *queueMode {
	s := sessionqueue.New(sessionqueue.Config[*session]{
		Frame: c.frame, Server: c, TTL: c.ttl, MaxUpdates: maxUpdates, RenewApart: true,
	})
	c.receiver = s
	return &queueMode{Detacher: sessionqueue.Detacher[*session]{Store: s}, consul: c}
}

// start begins the session and its renewal.
func (m *queueMode) start(ctx context.Context, identity string) error {
	m.identity = identity
	_, err := m.Session(ctx)
	if err == nil {
		m.Start()
	}
	return err
}

// Abilities implements store.Store.
func (m *queueMode) Abilities() store.Abilities {
	able := m.consul.abilities()
	able.Identity, able.Queue, able.Shared, able.Detach = m.identity, true, true, true
	return able
}

// abilities returns the abilities that both modes have.
func (c *consul) abilities() store.Abilities {
	return store.Abilities{
		Store:      c.frame.Name,
		MinTTL:     c.ttl,
		MaxTTL:     MaxTTL,
		SessionTTL: c.ttl,
		// Consul ends a session when it was not renewed for twice its ttl, and a new leader counts from its election.
		TakeoverTTLs: 4,
		TakeoverPlus: 5 * time.Second,
		Tokens:       store.SurvivesRestart | store.SurvivesClockBack | store.SurvivesFailover,
	}
}

// closeIdle closes the connections that no request uses.
func (c *consul) closeIdle() {
	for _, a := range []*agent{c.agent, c.queries, c.renewals} {
		a.client.CloseIdleConnections()
	}
}

// Close implements store.Store.
func (m *queueMode) Close() error {
	err := m.Store.Close()
	m.consul.closeIdle()
	return err
}

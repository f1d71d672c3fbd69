package consulstore

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

// OpenThrough opens a store by other ways to its servers, and with its events through a valve.
func OpenThrough(ctx context.Context, v *Valved, servers, ways []string, options ...Option) (*Store, error) {
	set, err := newSettings(servers, options...)
	if err != nil {
		return nil, err
	}
	c := newConsul(newFrame(set), set)
	c.dialer.addresses = ways
	m := newMode(c)
	v.events, c.receiver = c.receiver, v
	return begin(ctx, c, m)
}

// OpenOver opens a store all of whose requests but renewals go over what is made of its own way.
func OpenOver(
	ctx context.Context, way func(http.RoundTripper) http.RoundTripper, servers []string, options ...Option,
) (*Store, error) {
	set, err := newSettings(servers, options...)
	if err != nil {
		return nil, err
	}
	c := newConsul(newFrame(set), set)
	c.client.Transport = way(c.client.Transport)
	return begin(ctx, c, newMode(c))
}

// LineOf is what the keys of a name's queue begin with, for a store without prefix.
func LineOf(name string) string { return newKeySpace("").queue(name) }

// KeyOf is the key of a claim, for a store without prefix.
func KeyOf(name string, id store.ID) string { return newKeySpace("").claim(name, id) }

// A Valved passes the events of a store through a valve, and counts those that blocking queries and polls have found.
type Valved struct {
	events
	testkit.Valve
	Fired atomic.Int32
}

// Changed implements events.
func (v *Valved) Changed(in *session, w sessionqueue.Watch, deleted bool) {
	v.Fired.Add(1)
	v.Pass(func() { v.events.Changed(in, w, deleted) })
}

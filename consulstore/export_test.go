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
	return openWith(ctx, servers, options, func(c *consul) {
		c.dialer.addresses = ways
		v.next, c.changed = c.changed, v.changed
	})
}

// OpenOver opens a store all of whose requests but renewals go over what is made of its own way.
func OpenOver(
	ctx context.Context, way func(http.RoundTripper) http.RoundTripper, servers []string, options ...Option,
) (*Store, error) {
	return openWith(ctx, servers, options, func(c *consul) { c.client.Transport = way(c.client.Transport) })
}

// openWith opens a store whose connection to Consul is changed before its first request.
func openWith(ctx context.Context, servers []string, options []Option, change func(*consul)) (*Store, error) {
	set := &settings{addresses: servers}
	for _, o := range options {
		o(set)
	}
	if err := set.check(); err != nil {
		return nil, err
	}
	s := newStore(set)
	change(s.consul)
	err := s.begin(ctx)
	return s, err
}

// LineOf is what the keys of a name's queue begin with, for a store without prefix.
func LineOf(name string) string { return newKeySpace("").queue(name) }

// KeyOf is the key of a claim, for a store without prefix.
func KeyOf(name string, id store.ID) string { return newKeySpace("").claim(name, id) }

// A Valved passes the events of a store through a valve, and counts those that blocking queries and polls have found.
type Valved struct {
	testkit.Valve
	Fired atomic.Int32
	next  func(in *session, w sessionqueue.Watch, deleted bool)
}

func (v *Valved) changed(in *session, w sessionqueue.Watch, deleted bool) {
	v.Fired.Add(1)
	v.Pass(func() { v.next(in, w, deleted) })
}

package consulstore

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

// OpenThrough opens a store by other ways to its servers, and with its events through a valve.
func OpenThrough(ctx context.Context, v *Valve, servers, ways []string, options ...Option) (*Store, error) {
	set, err := newSettings(servers, options...)
	if err != nil {
		return nil, err
	}
	c := newConsul(newFrame(set), set)
	c.dialer.addresses = ways
	m := newMode(c)
	v.events, c.told = c.told, v
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

// LineOf is what the keys of a name's line begin with, for a store without prefix.
func LineOf(name string) string { return newKeySpace("").line(name) }

// KeyOf is the key of a claim, for a store without prefix.
func KeyOf(name string, id store.ID) string { return newKeySpace("").claim(name, id) }

// A Valve lies in the way of what blocking queries have found.
type Valve struct {
	events
	Fired atomic.Int32 // how many there were

	mu    sync.Mutex
	held  int
	drops bool
	back  []func() // held back
}

// Changed implements events.
func (v *Valve) Changed(in *session, w sessionqueue.Watch, deleted bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.Fired.Add(1)
	switch {
	case v.drops:
	case v.held > 0:
		v.back = append(v.back, func() { v.events.Changed(in, w, deleted) })
	default:
		v.events.Changed(in, w, deleted)
	}
}

// Hold keeps events back until release.
func (v *Valve) Hold() (release func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held++
	return sync.OnceFunc(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.held--; v.held == 0 {
			for _, deliver := range v.back {
				deliver()
			}
			v.back = nil
		}
	})
}

// Drop loses events.
func (v *Valve) Drop(on bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drops = on
}

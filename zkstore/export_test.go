package zkstore

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

// OpenThrough opens a store by other ways to its servers, and with its events through a valve.
func OpenThrough(ctx context.Context, v *testkit.Valve, servers, ways []string, options ...Option) (*Store, error) {
	set := &settings{servers: servers}
	for _, o := range options {
		o(set)
	}
	if err := set.check(); err != nil {
		return nil, err
	}
	f := newFrame(set)
	set.servers = ways
	s := newStore(f, set)
	s.servers.receiver = valved{s.Store, v}
	if err := s.begin(ctx); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// AnyEpoch breaks a store that was just opened: it makes claims in whatever epoch its session is.
func AnyEpoch(s *Store) { s.Server = anyEpoch{s.servers} }

type anyEpoch struct{ *servers }

// Make implements sessionqueue.Server.
func (z anyEpoch) Make(
	ctx context.Context, c *client, claim *store.Claim, data string,
) (made sessionqueue.Made, unsure bool, err error) {
	c.epoch.Store(-1) // a version that all nodes have
	return z.servers.Make(ctx, c, claim, data)
}

// LinePath is the path of a name's queue, for a store without prefix. The root is that of Curator's layout.
func LinePath(layout, root, name string) string { return layoutNamed(layout, root).path(name) }

func layoutNamed(name, root string) layout {
	if name == "" {
		return (&settings{layoutName: ownName}).layout()
	}
	return (&settings{layoutName: name, chroot: root}).layout()
}

// NodeOf is the name of the node that a claim has among these, or "".
func NodeOf(layout string, children []string, id store.ID) string {
	for _, child := range children {
		if e, ok, err := layoutNamed(layout, "").parse(child); ok && err == nil && e.ID == id && !e.marker {
			return child
		}
	}
	return ""
}

// valved passes the events of a store through a valve.
type valved struct {
	events
	valve *testkit.Valve
}

// Changed implements events.
func (v valved) Changed(c *client, w sessionqueue.Watch, deleted bool) {
	v.valve.Pass(func() { v.events.Changed(c, w, deleted) })
}

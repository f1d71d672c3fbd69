package redisstore

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
)

// A node is a server that keeps locks, and the store's connections to it.
type node struct {
	address  string // of a node of a cluster
	client   rueidis.Client
	owned    bool // whether the client is ours to close
	commands plug
	pushes   plug
	acked    plug // for what replicas must acknowledge; not connected where none has to

	inspected atomic.Bool // in a cluster: it was looked at before locks were first kept there
}

// newNode makes a node of a client that leads to one server. It does not connect yet.
func (s *Store) newNode(address string, client rueidis.Client, owned bool) *node {
	n := &node{address: address, client: client, owned: owned}
	n.commands.Connect = func() (*wire, error) { return s.connectCommands(n) }
	n.acked.Connect = func() (*wire, error) { return s.connectAcked(n) }
	n.pushes.Connect = func() (*wire, error) { return s.connectPushes(n) }
	for _, p := range n.plugs() {
		p.Made = func(w *wire) { n.keepTo(w.run, errCut) }
	}
	return n
}

func (n *node) plugs() []*plug { return []*plug{&n.commands, &n.pushes, &n.acked} }

// plug is for commands, or for those that replicas must acknowledge.
func (n *node) plug(acked bool) *plug {
	if acked {
		return &n.acked
	}
	return &n.commands
}

// keepTo ends connections that lead to another run of the server, or to another server. They may be alive: nothing comes
// over them any more, and who writes there writes for nobody.
func (n *node) keepTo(run string, why error) {
	for _, p := range n.plugs() {
		if w, ok := p.Current(); ok && w.run != run {
			w.End(why)
		}
	}
}

// close ends the connections, and lets nobody make another. What is just being connected is given up if the client is
// ours; otherwise it takes as long as the client lets it.
func (n *node) close() {
	for _, p := range n.plugs() {
		p.Unplug()
	}
	if n.owned {
		n.client.Close()
	}
	for _, p := range n.plugs() {
		p.Tasks.Wait()
	}
}

// connect makes a connection to the node that scripts can be run over.
func (s *Store) connect(n *node, p *plug) (*wire, *Server, error) {
	w, server, err := newWire(p, n.client, rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
	if err != nil {
		return nil, nil, err
	}
	switch err = usable(&w.Info, s.cluster != nil); {
	case err != nil:
		err = fmt.Errorf("%w: %w", errUnusable, err)
	case s.cluster == nil:
		ctx, cancel := context.WithTimeout(s.frame.Life(), dialTimeout)
		if err = s.probe(ctx, w, s.shelf); err == nil {
			err = s.arrive(ctx, w, s.shelf)
		}
		cancel()
	default: // to arrive is for each slot to do
		w.joins = new([slotCount]atomic.Int64)
		if !n.inspected.Load() {
			err = s.inspect(server, n.address)
			n.inspected.Store(err == nil)
		}
	}
	if err != nil {
		w.End(err)
		return nil, nil, err
	}
	return w, server, nil
}

// connectCommands makes a connection for commands.
func (s *Store) connectCommands(n *node) (*wire, error) {
	w, server, err := s.connect(n, &n.commands)
	if err != nil {
		return nil, err
	}
	s.met.Do(func() { s.server = *server }) // before anybody else can look
	select {
	case s.reached <- struct{}{}:
	default:
	}
	return w, nil
}

// connectAcked makes a connection for what replicas must acknowledge.
func (s *Store) connectAcked(n *node) (*wire, error) {
	w, _, err := s.connect(n, &n.acked)
	if err == nil {
		w.newRounds(s.replicaSettings, &n.acked.Tasks)
	}
	return w, err
}

// probe looks whether the server does what the scripts need, before anything is written there: servers that resemble
// Redis are judged by what they do, and a user who may not publish learns it before somebody waits. In a cluster, who
// may not publish learns it when waiting.
func (s *Store) probe(ctx context.Context, w *wire, at *shelf) error {
	undeclared, topic := at.run, at.topic
	if s.plain != nil { // its scripts name all of their keys
		undeclared = ""
	}
	if s.cluster != nil {
		topic = ""
	}
	said, err := probeScript.Run(ctx, w, []string{at.mark}, []string{undeclared, topic}).ToString()
	if e, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(e.Error(), "unknown command") {
		why, _ := rediswire.Explain(err)
		return fmt.Errorf("%w: it runs no scripts: %w", errUnusable, why)
	}
	if err == nil && said != "ok" {
		err = fmt.Errorf("%w: %q", errShape, said)
	}
	return err
}

// arrive looks whether this run of the server has raised the mark yet. It comes before the first Join over this
// connection (in a cluster: for this slot), and no connection outlives the server: so it is enough. A guard begins here
// too, and not only when somebody first asks for a lock.
func (s *Store) arrive(ctx context.Context, w *wire, at *shelf) error {
	said, err := keepScript.Run(ctx, w, []string{at.mark, at.run}, []string{w.run, millis(s.guard)}).AsStrSlice()
	switch {
	case err != nil:
		return err
	case len(said) != 1:
		return fmt.Errorf("%w: %q", errShape, said)
	case said[0] != "ok":
		return s.refusedKey(said[0], at.run)
	}
	return nil
}

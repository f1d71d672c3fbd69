package zkstore

import (
	"context"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
)

// A claim is one of this client's that has a node, as far as is known. What may change is guarded by the store's mutex.
type claim struct {
	position
	joined time.Time // when Join was called

	ask     store.Ask
	state   store.State // Waiting or Held
	granted time.Time   // if it had to wait

	written string // the data of its node
	version int32  // of that data

	waitsFor watch
	lastOne  bool  // nothing else is ahead of it
	unknown  error // why its line could not be judged

	watchTimer *time.Timer // watches its own node
}

// tellGrant is how long a claim that had to wait is held before its node says since when. A short hold costs no write
// for it.
const tellGrant = time.Second

// record is what its node has to say after a Keep.
func (c *claim) record(kept *store.Claim) record {
	r := record{
		TTL: c.session.TTL.Milliseconds(), Joined: millis(c.joined), Turn: kept.Turn, Owner: kept.Owner, Waits: kept.Waits,
	}
	if c.state == store.Held && time.Since(c.granted) > tellGrant {
		r.Granted = millis(c.granted)
	}
	return r
}

// watchAfter is how long a claim stands before its own node is watched, so that its deletion by others is noticed at
// once. A lock that is released sooner costs no watch.
const watchAfter = 25 * time.Millisecond

// admit notes that a claim stands.
func (s *Store) admit(c *claim) {
	s.claims[c.id] = c
	c.watchTimer = time.AfterFunc(watchAfter, func() { s.watchOwnNode(c) })
}

// hold notes that c is held. Claims behind it can't change that: it ends when its node is deleted.
func (s *Store) hold(c *claim) {
	if c.state == store.Held {
		return
	}
	c.state = store.Held
	c.granted = time.Now()
	s.unwatch(c, c.waitsFor)
	s.mu.Push(c.id, store.Standing{State: store.Held, Ticket: c.ticket})
}

// gone notes that c stands no more.
func (s *Store) gone(c *claim) {
	if !s.remove(c) {
		return
	}
	s.mu.Push(c.id, store.Standing{State: store.Gone, Ticket: c.ticket})
	if s.sessions.Is(c.session) && len(c.markers) > 0 {
		s.pending[c.id] = c.position
	}
}

// remove forgets c. It reports false if that has happened before.
func (s *Store) remove(c *claim) bool {
	if s.claims[c.id] != c {
		return false
	}
	delete(s.claims, c.id)
	delete(s.doubts, c)
	s.unwatch(c, c.waitsFor)
	s.unwatch(c, watch{path: c.node})
	c.watchTimer.Stop()
	return true
}

// A watch is on the deletion of a node and on its children, or on its deletion and its data. ZooKeeper has no other
// watch on the deletion alone, and the nodes of claims have no children.
type watch struct {
	path string
	data bool
}

// firedBy returns the watches that an event ends.
func firedBy(e zk.Event) []watch {
	switch e.Type {
	case zk.EventNodeDeleted, zk.EventNotWatching:
		return []watch{{e.Path, false}, {e.Path, true}}
	case zk.EventNodeChildrenChanged:
		return []watch{{e.Path, false}}
	case zk.EventNodeDataChanged:
		return []watch{{e.Path, true}}
	}
	return nil
}

// watchFired notes that something happened to what c watches.
func (s *Store) watchFired(c *claim, w watch, what zk.EventType) {
	if what == zk.EventNodeDeleted && c.lastOne && c.waitsFor == w && c.state == store.Waiting {
		s.hold(c) // nothing can have come ahead of it
		return
	}
	s.doubt(c)
}

// A watching is a watch that is set at the server, or about to be.
type watching struct {
	told map[*claim]struct{}
	set  chan struct{} // is closed when the server has responded
}

// unwatch has c not be told of a watch. At the server it stays until it fires, or the session ends.
func (s *Store) unwatch(c *claim, w watch) {
	if there := s.watches[w]; there != nil {
		delete(there.told, c)
	}
}

// watch has c put in doubt when w fires. It reports false if the node does not exist.
func (s *Store) watch(ctx context.Context, c *claim, w watch) (bool, error) {
	s.mu.Lock()
	there := s.watches[w]
	first := there == nil
	if first {
		there = &watching{map[*claim]struct{}{}, make(chan struct{})}
		s.watches[w] = there
	}
	there.told[c] = struct{}{}
	s.mu.Unlock()
	if !first {
		select {
		case <-there.set:
			return true, nil // if that failed, c is in doubt
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	c.session.Handle.watched.Store(true)
	err := request(ctx, c.session.Handle, func(conn *zk.Conn) (err error) {
		if w.data {
			_, _, _, err = conn.GetW(w.path)
		} else {
			_, _, _, err = conn.ChildrenW(w.path)
		}
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	close(there.set)
	if err == nil {
		return true, nil
	}
	if s.watches[w] == there {
		delete(s.watches, w)
	}
	delete(there.told, c)
	for other := range there.told {
		s.doubt(other)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	return false, err
}

// watchOwnNode watches the node of a claim that has stood for a while.
func (s *Store) watchOwnNode(c *claim) {
	s.frame.Go(func() {
		s.mu.Lock()
		stands := s.claims[c.id] == c
		s.mu.Unlock()
		if !stands {
			return
		}
		ctx, cancel := context.WithTimeout(s.frame.Life(), s.set.ttl/2)
		defer cancel()
		if there, err := s.watch(ctx, c, watch{path: c.node}); err == nil && !there {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.doubt(c)
		}
	})
}

// A position is where a claim has its node, or may come to have it. When the claim has left it is kept as pending until
// the servers have confirmed that there is none, or the session is over: a session that lives on would keep the claim
// for ever.
type position struct {
	id      store.ID
	name    string
	session *session
	node    string   // its path; empty: not known
	markers []string // the paths of nodes that say that it has shrunk
	ticket  uint64   // the node's czxid
	unsure  bool     // a Join of it may still land
}

// paths are those of all its nodes that are known, the claim's own last.
func (p *position) paths() []string {
	paths := slices.Clone(p.markers)
	if p.node != "" {
		paths = append(paths, p.node)
	}
	return paths
}

// child is the name of its node in the line.
func (p *position) child() string { return path.Base(p.node) }

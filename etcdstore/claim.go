package etcdstore

import (
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// A claim is a claim of this client that has a key in etcd, as far as is known. Its mutable fields are guarded by the
// store's mutex.
type claim struct {
	frame.Position[*lease]
	joined time.Time // when Join was called

	ask     store.Demand
	state   store.State // Waiting or Held
	granted time.Time   // if it had to wait
	asOf    int64       // the revision at which it was last inspected

	written string // the value that was last written
	mod     int64  // the key's mod revision then

	blocker blocker // what it waits for
	moved   bool    // that is known to have changed
	unknown error   // why its queue could not be judged

	watchTimer   *time.Timer // begins ownWatch
	ownWatch     *watch      // on its own key
	blockerWatch *watch      // on what it waits for
}

// exclusive reports whether the claim holds only if no claim is ahead of it.
func (c *claim) exclusive() bool { return c.ask.Units == c.ask.Limit }

// record returns the value that its key has after a Keep.
func (c *claim) record(kept *store.Claim) record {
	return record{
		ID: c.ID, Kind: c.ask.Kind, Units: min(c.ask.Units, kept.Units), Limit: c.ask.Limit,
		Record: frame.NewRecord(kept, c.Session.TTL, c.joined, c.granted),
	}
}

// watchAfter is the age of a claim from which its own key is watched, so that a deletion by another client is noticed
// at once. A lock that is released sooner costs no watch.
const watchAfter = 25 * time.Millisecond

// admit adds a claim that has a key, and returns it. If the claim is known already, it returns that one.
func (s *Store) admit(c *claim) *claim {
	known := s.claims[c.ID]
	if known != nil && known.Ticket == c.Ticket {
		known.Unsure = known.Unsure || c.Unsure
		return known
	}
	if known != nil {
		s.remove(known) // it was deleted, unnoticed so far
	}
	s.claims[c.ID] = c
	c.watchTimer = time.AfterFunc(watchAfter, func() { s.watchOwnKey(c) })
	return c
}

// hold notes that c is held, and pushes that. Claims behind it can't change that: it ends when its key is deleted.
func (s *Store) hold(c *claim) {
	if c.state == store.Held {
		return
	}
	c.state = store.Held
	c.granted = time.Now()
	s.unwatchBlocker(c)
	s.mu.Push(c.ID, store.Status{State: store.Held, Ticket: c.Ticket})
}

// gone removes c, which is gone, and pushes that.
func (s *Store) gone(c *claim) {
	if !s.remove(c) {
		return
	}
	s.mu.Push(c.ID, store.Status{State: store.Gone, Ticket: c.Ticket})
	s.freeKey(c)
}

// freeKey frees the key of a claim that was removed as soon as no request in flight can write it.
func (s *Store) freeKey(c *claim) {
	switch {
	case !s.sessions.Is(c.Session): // it went with its session
	case c.Unsure:
		s.deletes.Remember(c.Position)
	default:
		s.releaseKey(c.Position)
	}
}

// releaseKey frees the key for another claim, unless this one still uses it.
func (s *Store) releaseKey(p position) {
	if s.claims[p.ID] == nil {
		s.slots.release(p.Name, p.ID)
	}
}

// remove removes c. It reports false if c was removed before.
func (s *Store) remove(c *claim) bool {
	if s.claims[c.ID] != c {
		return false
	}
	delete(s.claims, c.ID)
	s.doubts.Remove(c)
	s.unwatchBlocker(c)
	c.watchTimer.Stop()
	if c.ownWatch != nil {
		s.watcher.remove(c.ownWatch)
	}
	return true
}

// watchOwnKey watches the key of a claim that is older than watchAfter.
func (s *Store) watchOwnKey(c *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims[c.ID] != c || s.frame.Closed() {
		return
	}
	c.ownWatch = &watch{key: c.Key, asOf: c.asOf, told: func(*mvccpb.Event) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.doubt(c)
	}}
	s.watcher.add(c.ownWatch)
}

// waitFor makes c wait for what blocks it, as read at a revision, and watches that.
func (s *Store) waitFor(c *claim, b blocker, asOf int64) {
	c.moved = false
	if c.blockerWatch != nil && c.blocker == b {
		return
	}
	s.unwatchBlocker(c)
	c.blocker = b
	w := &watch{key: b.key, puts: !c.exclusive(), asOf: asOf}
	if b.key == "" { // the whole queue
		w.key = s.keys.queue(c.Name)
		w.end = clientv3.GetPrefixRangeEnd(w.key)
	}
	w.told = func(e *mvccpb.Event) { s.blockerMoved(c, w, e) }
	c.blockerWatch = w
	s.watcher.add(w)
}

// unwatchBlocker ends the watch on what blocks c.
func (s *Store) unwatchBlocker(c *claim) {
	if c.blockerWatch != nil {
		s.watcher.remove(c.blockerWatch)
		c.blockerWatch = nil
	}
}

// blockerMoved handles an event of the watch on what c waits for. The event is nil if it is not known what has changed.
func (s *Store) blockerMoved(c *claim, w *watch, e *mvccpb.Event) {
	if e != nil && e.Type == mvccpb.Event_PUT && e.Kv.CreateRevision >= int64(c.Ticket) { //nolint:gosec // a revision
		return // in a queue that is watched as a whole: a claim behind
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.blockerWatch == w { // otherwise it waits for something else by now
		c.moved = c.moved || e != nil
		s.doubt(c)
	}
}

package sessionqueue

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// A claim is a claim of this client that has a node, as far as is known. Its mutable fields are guarded by the store's
// mutex.
type claim[S comparable] struct {
	frame.Position[S]
	joined time.Time // when Join was called

	demand  store.Demand
	state   store.State // Waiting or Held
	granted time.Time   // if it had to wait

	written string // the data of its node
	version uint64 // of that data
	moved   bool   // it was attached: its data has its ID

	waitsFor []Watch
	noOthers bool  // it holds once all that it waits for have left: nothing else is ahead of it, nor can come there
	unknown  error // why its queue could not be judged

	watchTimer *time.Timer // watches its own node; nil if that is not done
}

// data returns the data that the node has after a Keep.
func (c *claim[S]) data(kept *store.Claim) string {
	r := record{Record: frame.NewRecord(kept, c.Session.TTL, c.joined, c.granted)}
	if c.moved {
		r.ID = c.ID
	}
	return frame.Encode(Format, r)
}

// watchAfter is the age of a claim from which its own node is watched, so that a deletion by another client is noticed
// at once. A lock that is released sooner costs no watch.
const watchAfter = 25 * time.Millisecond

// admit adds a claim whose node exists.
func (s *Store[S]) admit(c *claim[S]) {
	s.claims[c.ID] = c
	if s.WatchOwn {
		c.watchTimer = time.AfterFunc(watchAfter, func() { s.watchOwnNode(c) })
	}
}

// hold notes that c is held, and pushes that. Claims behind it can't change that: it ends when its node is deleted.
func (s *Store[S]) hold(c *claim[S]) {
	if c.state == store.Held {
		return
	}
	c.state = store.Held
	c.granted = time.Now()
	s.doubts.Remove(c)
	s.waitFor(c, nil, false)
	s.mu.Push(c.ID, store.Status{State: store.Held, Ticket: c.Ticket})
}

// lost removes c, which is gone, and pushes that.
func (s *Store[S]) lost(c *claim[S]) {
	if !s.remove(c) {
		return
	}
	s.mu.Push(c.ID, store.Status{State: store.Gone, Ticket: c.Ticket})
	if c.Unsure || len(c.Markers) > 0 {
		s.deletes.Remember(c.Position)
	}
}

// remove removes c. It reports false if c was removed before.
func (s *Store[S]) remove(c *claim[S]) bool {
	if s.claims[c.ID] != c {
		return false
	}
	delete(s.claims, c.ID)
	s.doubts.Remove(c)
	s.waitFor(c, nil, false)
	s.unwatch(c, Watch{Key: c.Key})
	if c.watchTimer != nil {
		c.watchTimer.Stop()
	}
	return true
}

// waitFor records the watches that c waits for from now on, and removes those that it waited for before. noOthers
// reports whether they cover all claims ahead of it.
func (s *Store[S]) waitFor(c *claim[S], watches []Watch, noOthers bool) {
	for _, w := range c.waitsFor {
		if !slices.Contains(watches, w) {
			s.unwatch(c, w)
		}
	}
	c.waitsFor, c.noOthers = watches, noOthers
}

// freed notes that a node that c waits for was deleted. c holds at once if it is known that no other claim is ahead of
// it and that its own node exists. Otherwise the queue is read: where own nodes are not watched, another client may
// have deleted it.
func (s *Store[S]) freed(c *claim[S], deleted Watch) {
	c.waitsFor = slices.DeleteFunc(slices.Clone(c.waitsFor), func(w Watch) bool { return w == deleted })
	switch {
	case !c.noOthers || !s.WatchOwn:
		s.doubt(c)
	case len(c.waitsFor) == 0:
		s.hold(c)
	}
}

// A watching is a watch that is set at the server, or is being set.
type watching[S comparable] struct {
	claims map[*claim[S]]struct{}
	set    chan struct{} // is closed when the server has responded
}

// unwatch stops notifying c of a watch. A watch that notifies no claim is removed at the server.
func (s *Store[S]) unwatch(c *claim[S], w Watch) {
	there := s.watches[w]
	if there == nil {
		return
	}
	delete(there.claims, c)
	if len(there.claims) == 0 {
		delete(s.watches, w)
		s.Server.Unwatch(c.Session.Handle, w)
	}
}

// watch sets a watch that puts c in doubt when it fires. It reports false if the node does not exist. The error is that
// of the server or of ctx.
func (s *Store[S]) watch(ctx context.Context, c *claim[S], w Watch) (bool, error) {
	s.mu.Lock()
	if s.claims[c.ID] != c { // it is gone, maybe with its session: others must not rely on a watch of that
		s.mu.Unlock()
		return true, nil
	}
	there := s.watches[w]
	first := there == nil
	if first {
		there = &watching[S]{map[*claim[S]]struct{}{}, make(chan struct{})}
		s.watches[w] = there
	}
	there.claims[c] = struct{}{}
	s.mu.Unlock()
	if !first {
		select {
		case <-there.set:
			return true, nil // if that failed, c is in doubt
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	exists, err := s.Server.Watch(ctx, c.Session.Handle, w)
	s.mu.Lock()
	defer s.mu.Unlock()
	close(there.set)
	now := s.watches[w]
	switch {
	case exists && err == nil:
		if now == nil { // it was given up while it was being set
			s.Server.Unwatch(c.Session.Handle, w)
		}
		return true, nil
	case now == there:
		delete(s.watches, w)
	}
	delete(there.claims, c)
	for other := range there.claims {
		s.doubt(other)
	}
	return false, err
}

// watchAhead sets the watches that c waits for. It reports false if one of those nodes does not exist any more.
func (s *Store[S]) watchAhead(ctx context.Context, c *claim[S]) (there bool, err error) {
	s.mu.Lock()
	watches := c.waitsFor
	s.mu.Unlock()
	for _, w := range watches {
		if there, err := s.watch(ctx, c, w); err != nil || !there {
			return false, err
		}
	}
	return true, nil
}

// watchOwnNode watches the node of a claim that is older than watchAfter.
func (s *Store[S]) watchOwnNode(c *claim[S]) {
	s.Frame.Go(func() {
		ctx, cancel := context.WithTimeout(s.Frame.Life(), s.TTL/2)
		defer cancel()
		if there, err := s.watch(ctx, c, Watch{Key: c.Key}); err == nil && !there {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.doubt(c)
		}
	})
}

package sessionqueue

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/grant"
)

// queueNow returns a queue that is no older than the call.
func (s *Store[S]) queueNow(ctx context.Context, in S, name string) ([]Entry, error) {
	if err := s.Server.CatchUp(ctx, in); err != nil {
		return nil, err
	}
	return s.Server.Queue(ctx, in, name)
}

// exclusive reports whether the claim holds only if no claim is ahead of it.
func (c *claim[S]) exclusive() bool { return c.demand.Units == c.demand.Limit }

// evaluate returns the state of a claim that comes after these entries, and what it waits for (see grant.Blocker): one
// that wants everything for the one or two before it. noOthers reports that the claim holds once all nodes that it
// waits for are deleted.
func (s *Store[S]) evaluate(
	name string, ahead []Entry, ask store.Demand,
) (state store.State, waitsFor []Watch, noOthers bool) {
	state, by := grant.Blocker(len(ahead), func(i int) store.Demand { return ahead[i].Demand }, ask)
	switch {
	case state == store.Held:
		return state, nil, false
	case ask.Units == ask.Limit:
		first := by
		if s.WatchTwo && by > 0 {
			first--
		}
		for _, e := range ahead[first:] {
			waitsFor = append(waitsFor, Watch{Key: e.Key})
		}
		return state, waitsFor, first == 0 && !s.Foreign && s.WatchOwn
	case by >= 0:
		return state, []Watch{{Key: ahead[by].Key, Data: true}}, false
	}
	return state, []Watch{{Key: s.Server.QueueKey(name)}}, false
}

// maxInspections bounds how often a queue is read again because a node that blocks a claim was deleted meanwhile.
const maxInspections = 5

// inspect determines the status of claims of one name, and watches what they wait for. It pushes for claims that turn
// out to be held or gone.
//
// The queue may be read from a server that lags behind. But a claim that was ahead and is missing in that queue has
// left forever. So a grant may be noticed late, but never too early.
func (s *Store[S]) inspect(ctx context.Context, name string, claims []*claim[S]) error {
	for range maxInspections {
		entries, err := s.Server.Queue(ctx, claims[0].Session.Handle, name)
		switch {
		case errors.Is(err, ErrOver):
			s.Sessions.Over(claims[0].Session)
			return nil
		case unreadable(err):
			s.mu.Lock()
			for _, c := range claims {
				c.unknown = err
			}
			s.mu.Unlock()
			return nil
		case err != nil:
			return err
		}
		var again []*claim[S]
		for _, c := range claims {
			settled, err := s.judge(ctx, c, entries)
			if err != nil {
				return err
			}
			if !settled {
				again = append(again, c)
			}
		}
		if claims = again; len(claims) == 0 {
			return nil
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range claims { // the queue changes faster than one can look, and nothing may be watched
		s.doubt(c)
	}
	return nil
}

// judge determines the status of c from its queue, and watches what it waits for. It reports false if that was deleted
// or has changed meanwhile, so that the queue must be read again.
func (s *Store[S]) judge(ctx context.Context, c *claim[S], entries []Entry) (settled bool, err error) {
	s.mu.Lock()
	waits := s.judged(c, entries)
	exclusive := c.exclusive()
	s.mu.Unlock()
	if !waits {
		return true, nil
	}
	there, err := s.watchAhead(ctx, c)
	if err != nil || !there || exclusive {
		return there, err
	}
	now, err := s.Server.Queue(ctx, c.Session.Handle, c.Name)
	return slices.Equal(aheadOf(now, c.Key), aheadOf(entries, c.Key)), err
}

// aheadOf returns the entries ahead of a node in a queue, or nil if the node is not there.
func aheadOf(entries []Entry, key string) []Entry { return entries[:max(indexOf(entries, key), 0)] }

// judged sets the status of c from its queue. It reports whether c waits.
func (s *Store[S]) judged(c *claim[S], entries []Entry) (waits bool) {
	if s.claims[c.ID] != c {
		return false
	}
	c.unknown = nil
	at := indexOf(entries, c.Key)
	switch {
	case at < 0:
		s.lost(c)
		return false
	case c.state == store.Held:
		return false
	}
	state, waitsFor, noOthers := s.evaluate(c.Name, entries[:at], c.demand)
	if state == store.Held {
		s.hold(c)
		return false
	}
	s.waitFor(c, waitsFor, noOthers)
	return true
}

// unreadable reports whether err means that a queue has data that this version cannot interpret.
func unreadable(err error) bool {
	return errors.Is(err, store.ErrFormat) || errors.Is(err, ErrUnreadable)
}

// doubt requests an inspection of c: its node, or a node that blocks it, has changed.
func (s *Store[S]) doubt(c *claim[S]) {
	if s.claims[c.ID] == c {
		s.doubts.Add(c)
	}
}

// inspectAll inspects claims, reading each queue once.
func (s *Store[S]) inspectAll(ctx context.Context, claims []*claim[S]) error {
	type place struct {
		name string
		in   S
	}
	lines := map[place][]*claim[S]{}
	for _, c := range claims {
		at := place{c.Name, c.Session.Handle}
		lines[at] = append(lines[at], c)
	}
	return Each(slices.Collect(maps.Keys(lines)), func(at place) error { return s.inspect(ctx, at.name, lines[at]) })
}

// atOnce is how many requests of one call are in progress at the same time.
const atOnce = 32

// Each calls f for every item, several at the same time, and returns the first error.
func Each[T any](items []T, f func(T) error) error {
	if len(items) == 1 {
		return f(items[0])
	}
	var all sync.WaitGroup
	var once sync.Once
	var first error
	free := make(chan struct{}, atOnce)
	for _, item := range items {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			if err := f(item); err != nil {
				once.Do(func() { first = err })
			}
		})
	}
	all.Wait()
	return first
}

package rediskey

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
)

// A Waiter is a claim that waits for a lock.
type Waiter interface {
	// Subscribed says that the waiter learns of releases from now on. It may have missed one.
	Subscribed()
	// Released says that the lock was released at a node.
	Released(node int)
}

// Subscriptions are the channels of one client: one for each key that some of its claims wait for, at the nodes that
// they name. A channel is left only when many are idle: a client that has waited for a lock once often does so again.
// Methods may be called by many goroutines at once. Only Listen and Message call waiters.
type Subscriptions struct {
	prefix string // of the channel of a key
	mu     sync.Mutex
	keys   map[string]*subscription
	idle   map[string]bool // the keys without waiters
	nodes  []changes
}

// A subscription is to the channel of one key.
type subscription struct {
	waiters map[Waiter]bool
	nodes   uint64 // a bit for each node where it is
}

// changes are the keys whose subscription at one node may have to be changed.
type changes struct {
	keys map[string]bool
	todo chan struct{} // holds a token when there are some
}

// mostIdle is how many channels may be without waiters.
const mostIdle = 64

// NewSubscriptions makes subscriptions at so many nodes, to channels that are named by a prefix and the key.
func NewSubscriptions(nodes int, prefix string) *Subscriptions {
	s := &Subscriptions{prefix: prefix, keys: map[string]*subscription{}, idle: map[string]bool{}}
	for range nodes {
		s.nodes = append(s.nodes, changes{map[string]bool{}, make(chan struct{}, 1)})
	}
	return s
}

// Join adds a waiter to the subscription of its key, if there is one.
func (s *Subscriptions) Join(key string, w Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.keys[key]; one != nil {
		one.waiters[w] = true
		delete(s.idle, key)
	}
}

// Add subscribes to the channel of a key at a node, if need be, and adds a waiter.
func (s *Subscriptions) Add(key string, w Waiter, node int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.keys[key]
	if one == nil {
		one = &subscription{waiters: map[Waiter]bool{}}
		s.keys[key] = one
	}
	if one.nodes>>node&1 == 0 {
		one.nodes |= 1 << node
		s.changed(node, key)
	}
	one.waiters[w] = true
	delete(s.idle, key)
}

// Remove removes a waiter. Its channel may stay subscribed.
func (s *Subscriptions) Remove(key string, w Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.keys[key]
	if one == nil || !one.waiters[w] {
		return
	}
	if delete(one.waiters, w); len(one.waiters) > 0 {
		return
	}
	if s.idle[key] = true; len(s.idle) <= mostIdle {
		return
	}
	for key := range s.idle {
		for node := range s.nodes {
			if s.keys[key].nodes>>node&1 != 0 {
				s.changed(node, key)
			}
		}
		delete(s.keys, key)
	}
	clear(s.idle)
}

// changed has the subscription of a key at a node looked at.
func (s *Subscriptions) changed(node int, key string) {
	s.nodes[node].keys[key] = true
	rediswire.Notify(s.nodes[node].todo)
}

// Waiting returns the number of waiters.
func (s *Subscriptions) Waiting() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.keys {
		n += len(one.waiters)
	}
	return n
}

// A Conn is a connection over which messages come.
type Conn interface {
	rediswire.Doer
	Dead() <-chan struct{}
}

// Listen stays subscribed at a node until life ends. Without it waiters go on by themselves, only slower.
func (s *Subscriptions) Listen(life context.Context, node int, connect func(context.Context) (Conn, error)) {
	rediswire.Reconnect(life, func() error {
		c, err := connect(life)
		if err != nil {
			return err
		}
		s.mu.Lock()
		for key := range s.keys {
			s.changed(node, key)
		}
		s.mu.Unlock()
		return s.listenOn(life, node, c)
	})
}

// listenOn stays subscribed over one connection, as long as that lasts.
func (s *Subscriptions) listenOn(life context.Context, node int, c Conn) error {
	at := map[string]bool{} // the keys that are subscribed
	send := func(command rueidis.Completed) error {
		ctx, cancel := context.WithTimeout(life, rediswire.DialTimeout)
		defer cancel()
		return c.Do(ctx, command).Error()
	}
	for {
		stale, fresh, ready := s.changes(node, at)
		if len(stale) > 0 {
			if err := send(c.B().Unsubscribe().Channel(stale...).Build()); err != nil {
				return err
			}
		}
		if len(fresh) > 0 {
			if err := send(c.B().Subscribe().Channel(fresh...).Build()); err != nil {
				return err
			}
		}
		for _, w := range s.waiters(ready...) {
			w.Subscribed()
		}
		select {
		case <-s.nodes[node].todo:
		case <-c.Dead():
			return nil
		case <-life.Done():
			return nil
		}
	}
}

// changes takes the changes at a node. It returns the channels to unsubscribe and to subscribe, by the keys that are
// subscribed, and the keys whose waiters then learn of releases.
func (s *Subscriptions) changes(node int, at map[string]bool) (stale, fresh, ready []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.nodes[node].keys
	for key := range changed {
		one := s.keys[key]
		wanted := one != nil && one.nodes>>node&1 != 0
		if wanted {
			ready = append(ready, key)
		}
		switch {
		case wanted && !at[key]:
			at[key] = true
			fresh = append(fresh, s.prefix+key)
		case !wanted && at[key]:
			delete(at, key)
			stale = append(stale, s.prefix+key)
		}
	}
	clear(changed)
	return stale, fresh, ready
}

// waiters returns those who wait for any of the keys.
func (s *Subscriptions) waiters(keys ...string) (waiters []Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		if one := s.keys[key]; one != nil {
			waiters = slices.AppendSeq(waiters, maps.Keys(one.waiters))
		}
	}
	return waiters
}

// Message takes a message that a node has published on a channel.
func (s *Subscriptions) Message(node int, channel string) {
	if key, ok := strings.CutPrefix(channel, s.prefix); ok {
		for _, w := range s.waiters(key) {
			w.Released(node)
		}
	}
}

package rediskey

import (
	"context"
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

// Subscriptions are the channels of one client: one for each key that some of its claims wait for, at the nodes that they
// name. A channel is left only when many are idle: who has waited for a lock once often does so again. Its methods may be
// called by many goroutines at once, and call no waiter but in Listen and Message.
type Subscriptions struct {
	prefix string // of the channel of a key
	mu     sync.Mutex
	keys   map[string]*subscription
	idle   map[string]bool // the keys without waiters
	nodes  []changes
}

// A subscription is to the channel of one key. Sets of nodes have a bit for each.
type subscription struct {
	waiters map[Waiter]bool
	wanted  uint64 // the nodes where it is to be subscribed
	at      uint64 // the nodes where it is
}

// changes are what has to be done at one node.
type changes struct {
	subscribe, unsubscribe []string      // keys
	todo                   chan struct{} // holds a token when there are some
}

// mostIdle is how many channels may be without waiters.
const mostIdle = 64

// NewSubscriptions makes subscriptions at so many nodes, to channels that are named by a prefix and the key.
func NewSubscriptions(nodes int, prefix string) *Subscriptions {
	s := &Subscriptions{prefix: prefix, keys: map[string]*subscription{}, idle: map[string]bool{}, nodes: make([]changes, nodes)}
	for i := range s.nodes {
		s.nodes[i].todo = make(chan struct{}, 1)
	}
	return s
}

// Join adds a waiter to the subscription of its key, if there is one.
func (s *Subscriptions) Join(key string, w Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.keys[key]; one != nil {
		s.join(key, one, w)
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
	if one.wanted&(1<<node) == 0 {
		one.wanted |= 1 << node
		s.change(node, &s.nodes[node].subscribe, key)
	}
	s.join(key, one, w)
}

func (s *Subscriptions) join(key string, one *subscription, w Waiter) {
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
			if s.keys[key].at&(1<<node) != 0 {
				s.change(node, &s.nodes[node].unsubscribe, key)
			}
		}
		delete(s.keys, key)
	}
	clear(s.idle)
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

// change adds a key to a list of changes at a node.
func (s *Subscriptions) change(node int, list *[]string, key string) {
	*list = append(*list, key)
	select {
	case s.nodes[node].todo <- struct{}{}:
	default:
	}
}

// A Conn is a connection over which messages come.
type Conn interface {
	rediswire.Asker
	Dead() <-chan struct{}
}

// Listen stays subscribed at a node until life ends. Without it waiters go on by themselves, only slower.
func (s *Subscriptions) Listen(life context.Context, node int, connect func(context.Context) (Conn, error)) {
	rediswire.Reconnect(life, func() error {
		c, err := connect(life)
		if err != nil {
			return err
		}
		s.reconnected(node)
		return s.listenOn(life, node, c)
	})
}

// reconnected notes that all has to be subscribed anew at a node.
func (s *Subscriptions) reconnected(node int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := &s.nodes[node]
	n.subscribe, n.unsubscribe = nil, nil
	for key, one := range s.keys {
		one.at &^= 1 << node
		if one.wanted&(1<<node) != 0 {
			n.subscribe = append(n.subscribe, key)
		}
	}
}

// listenOn makes changes at a node over one connection, as long as that lasts.
func (s *Subscriptions) listenOn(life context.Context, node int, c Conn) error {
	for {
		stale, fresh := s.changes(node)
		if len(stale) > 0 { // first: a key may be among the fresh ones again
			if err := send(life, c, c.B().Unsubscribe().Channel(s.channels(stale)...).Build()); err != nil {
				return err
			}
		}
		if len(fresh) > 0 {
			if err := send(life, c, c.B().Subscribe().Channel(s.channels(fresh)...).Build()); err != nil {
				return err
			}
			for _, w := range s.subscribed(node, fresh) {
				w.Subscribed()
			}
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

// changes takes the keys that have to be unsubscribed and subscribed at a node.
func (s *Subscriptions) changes(node int) (stale, fresh []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := &s.nodes[node]
	for _, key := range n.subscribe {
		if one := s.keys[key]; one != nil && one.at&(1<<node) == 0 {
			fresh = append(fresh, key)
		}
	}
	stale = n.unsubscribe
	n.subscribe, n.unsubscribe = nil, nil
	return stale, fresh
}

// subscribed notes that keys are subscribed at a node, and returns their waiters.
func (s *Subscriptions) subscribed(node int, keys []string) (waiters []Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		one := s.keys[key]
		if one == nil { // it was idle meanwhile
			s.change(node, &s.nodes[node].unsubscribe, key)
			continue
		}
		one.at |= 1 << node
		waiters = one.appendTo(waiters)
	}
	return waiters
}

func (one *subscription) appendTo(waiters []Waiter) []Waiter {
	for w := range one.waiters {
		waiters = append(waiters, w)
	}
	return waiters
}

// Message takes a message that a node has published on a channel.
func (s *Subscriptions) Message(node int, channel string) {
	key, ok := strings.CutPrefix(channel, s.prefix)
	if !ok {
		return
	}
	var waiters []Waiter
	s.mu.Lock()
	if one := s.keys[key]; one != nil {
		waiters = one.appendTo(nil)
	}
	s.mu.Unlock()
	for _, w := range waiters {
		w.Released(node)
	}
}

func (s *Subscriptions) channels(keys []string) []string {
	channels := make([]string, len(keys))
	for i, key := range keys {
		channels[i] = s.prefix + key
	}
	return channels
}

func send(life context.Context, c Conn, command rueidis.Completed) error {
	ctx, cancel := context.WithTimeout(life, rediswire.DialTimeout)
	defer cancel()
	return c.Do(ctx, command).Error()
}

package redisstore

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/store"
)

// How long to wait before connecting again for pushes: from the first to the last, doubling.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
)

// connectPushes makes a connection that pushes come over. Nothing else does: a long answer does not hold them up.
func (s *Store) connectPushes(n *node) (*wire, error) {
	var topics topics
	w, _, err := newWire(&n.pushes, n.client, rueidis.PubSubHooks{OnMessage: s.onMessage, OnSubscription: func(of rueidis.PubSubSubscription) {
		if topics.note(of) {
			s.frame.Push(store.Everyone, store.Standing{}) // the slot is kept elsewhere now
		}
	}})
	if err != nil {
		return nil, err
	}
	w.topics = &topics
	if s.cluster != nil {
		n.pushes.Tasks.Go(func() {
			<-w.Dead()
			s.frame.Push(store.Everyone, store.Standing{})
		})
		return w, nil
	}
	ctx, cancel := context.WithTimeout(s.frame.Life(), dialTimeout)
	defer cancel()
	if err := w.Do(ctx, w.Client.B().Subscribe().Channel(s.shelf.topic).Build()).Error(); err != nil {
		w.End(err)
		return nil, err
	}
	return w, nil
}

// topics are what a connection for pushes is subscribed to.
type topics struct {
	mu    sync.Mutex
	heard map[string]bool
}

// note takes what the server says of a subscription. It says whether it has ended one: it does so when a slot is moved
// to another node.
func (t *topics) note(of rueidis.PubSubSubscription) (ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch of.Kind {
	case "ssubscribe":
		if t.heard == nil {
			t.heard = map[string]bool{}
		}
		t.heard[of.Channel] = true
	case "sunsubscribe":
		ended = t.heard[of.Channel]
		delete(t.heard, of.Channel)
	}
	return ended
}

// hears says whether what is published there comes over this connection.
func (w *wire) hears(topic string) bool {
	w.topics.mu.Lock()
	defer w.topics.mu.Unlock()
	return w.topics.heard[topic]
}

// listen stays connected for pushes until the store is closed. What was pushed while it was not is lost, so that
// everyone has to ask after it.
func (s *Store) listen() {
	pause := firstPause
	for {
		w, err := s.home.pushes.Get(s.frame.Life())
		if err == nil {
			s.frame.PushesResumed()
			connected := time.Now()
			select {
			case <-w.Dead():
			case <-s.frame.Life().Done():
				return
			}
			s.frame.PushesLost()
			if time.Since(connected) > lastPause {
				pause = firstPause
			}
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, lastPause)
		case <-s.reached:
			pause = firstPause
		case <-s.frame.Life().Done():
			return
		}
	}
}

// onMessage takes a push: lines of "h ID TICKET" for who holds now, and "g ID TICKET" for who is gone.
func (s *Store) onMessage(m rueidis.PubSubMessage) {
	if overhear := s.overhear.Load(); overhear != nil {
		(*overhear)(m.Channel)
	}
	for line := range strings.SplitSeq(m.Message, "\n") {
		w := words{rest: line}
		var state store.State
		switch w.next() {
		case "h":
			state = store.Held
		case "g":
			state = store.Gone
		default:
			continue // of a newer version, or of a stranger; Keep tells
		}
		id, ticket := w.id(), w.ticket()
		switch {
		case w.bad || id == store.Everyone || ticket >= maxExact:
		case s.confirmer != nil && state == store.Held:
			s.confirmer.pushed(id)
		default:
			s.frame.Push(id, store.Standing{State: state, Ticket: ticket, Ahead: -1})
		}
	}
}

package redisstore

import (
	"context"
	"strings"
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
func (s *Store) connectPushes() (*wire, error) {
	w, _, err := s.pushes.newWire(s.client, rueidis.PubSubHooks{OnMessage: s.onMessage})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(s.life, dialTimeout)
	defer cancel()
	if err := w.do(ctx, w.client.B().Subscribe().Channel(s.keys.pushes+s.channel).Build()).Error(); err != nil {
		w.end(err)
		return nil, err
	}
	return w, nil
}

// listen stays connected for pushes until the store is closed. What was pushed while it was not is lost, so that
// everyone has to ask after it.
func (s *Store) listen() {
	pause := firstPause
	for lost := false; ; {
		w, err := s.pushes.get(s.life)
		if err == nil {
			if lost {
				s.deliver(store.Everyone, store.Standing{})
			}
			connected := time.Now()
			select {
			case <-w.dead:
			case <-s.life.Done():
				return
			}
			lost = true
			if time.Since(connected) > lastPause {
				pause = firstPause
			}
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, lastPause)
		case <-s.reached:
			pause = firstPause
		case <-s.life.Done():
			return
		}
	}
}

// onMessage takes a push: lines of "h ID TICKET" for who holds now, and "g ID TICKET" for who is gone.
func (s *Store) onMessage(m rueidis.PubSubMessage) {
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
		if id, ticket := w.id(), w.ticket(); !w.bad && id != store.Everyone && ticket < maxExact {
			s.deliver(id, store.Standing{State: state, Ticket: ticket, Ahead: -1})
		}
	}
}

// deliver passes a push on to the client.
func (s *Store) deliver(id store.ID, standing store.Standing) {
	if notify := s.notify.Load(); notify != nil && !s.closed.Load() {
		(*notify)(id, standing)
	}
}

package redlock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// maxJoins is how many Joins are sent to the nodes at once.
const maxJoins = 64

// errCrowded is why a Join was never sent to the nodes.
var errCrowded = errors.New("nothing was sent: the nodes are too slow for the number of locks that are requested")

// A throttle bounds how many Joins are sent to the nodes at once: fewer when they are too slow, more when they respond
// in time. The timeout of a request begins when it is sent. If thousands were sent at once, all responses would be too
// late, again and again.
type throttle struct {
	mu       sync.Mutex
	limit    int // from 1 to mostJoins
	inFlight int // how many are in progress
	good     int // how many were not too slow since limit was last changed
	queue    []chan struct{}
}

// enter waits for a turn, in order of arrival, for ttl at most.
func (t *throttle) enter(ctx context.Context, ttl time.Duration) error {
	t.mu.Lock()
	if len(t.queue) == 0 && t.inFlight < t.limit {
		t.inFlight++
		t.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	t.queue = append(t.queue, turn)
	t.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-time.After(ttl):
		return t.giveUp(turn, errCrowded)
	case <-ctx.Done():
		return t.giveUp(turn, ctx.Err())
	}
}

// giveUp removes a turn from the queue, unless it has just come.
func (t *throttle) giveUp(turn chan struct{}, why error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.queue, turn)
	if i < 0 {
		return nil
	}
	t.queue = slices.Delete(t.queue, i, i+1)
	return why
}

// leave ends a turn. slow reports that too few nodes responded in time.
func (t *throttle) leave(slow bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inFlight--
	switch {
	case slow:
		t.limit, t.good = max(t.limit/2, 1), 0
	case t.good+1 >= t.limit:
		t.limit, t.good = min(t.limit+1, maxJoins), 0
	default:
		t.good++
	}
	t.admit()
}

// admit starts as many turns as the limit allows.
func (t *throttle) admit() {
	for len(t.queue) > 0 && t.inFlight < t.limit {
		close(t.queue[0])
		t.queue = t.queue[1:]
		t.inFlight++
	}
}

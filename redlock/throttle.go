package redlock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// mostJoins is how many Joins are put to the nodes at once, at most.
const mostJoins = 64

// errCrowded is why a Join was never put to the nodes.
var errCrowded = errors.New("the nodes were not asked: they are too slow for all the other locks that are wanted")

// A throttle bounds how many Joins are put to the nodes at once: fewer when they are too slow, more when they answer
// in time. The time that a node has to answer begins when it is asked. If it were asked for thousands of locks at
// once, all answers would be too late, again and again.
type throttle struct {
	mu    sync.Mutex
	limit int // from 1 to mostJoins
	under int // how many are under way
	good  int // how many were not too slow since limit was last changed
	queue []chan struct{}
}

// enter waits for its turn, in order of arrival, for ttl at most.
func (t *throttle) enter(ctx context.Context, ttl time.Duration) error {
	t.mu.Lock()
	if len(t.queue) == 0 && t.under < t.limit {
		t.under++
		t.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	t.queue = append(t.queue, turn)
	t.mu.Unlock()
	timer := time.NewTimer(ttl)
	defer timer.Stop()
	select {
	case <-turn:
		return nil
	case <-timer.C:
		return t.giveUp(turn, errCrowded)
	case <-ctx.Done():
		return t.giveUp(turn, ctx.Err())
	}
}

// giveUp takes one out of the queue, unless its turn has just come.
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

// leave ends a turn. Slow says that too few nodes answered in time.
func (t *throttle) leave(slow bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.under--
	switch {
	case slow:
		t.limit, t.good = max(t.limit/2, 1), 0
	case t.good+1 >= t.limit:
		t.limit, t.good = min(t.limit+1, mostJoins), 0
	default:
		t.good++
	}
	t.admit()
}

// admit lets in as many as may be under way.
func (t *throttle) admit() {
	for len(t.queue) > 0 && t.under < t.limit {
		close(t.queue[0])
		t.queue = t.queue[1:]
		t.under++
	}
}

package sim

import (
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// An event happens at a time. Of two at the same time the one that was planned first comes first.
type event struct {
	do     func(*world, *event)
	client *client // whom it happens to, or who sent the message; nil: the world
	atNode bool    // a message that arrives there, whatever becomes of its client
	actor  *actor  // the claim it is about; nil: the client's admitter
	node   int
	seq    uint64
	life   *life // the try it is about
	twice  bool  // a message that is delivered more than once
	req    *vote.Request
	ans    *vote.Answer
	due    time.Duration // by the client's clock
}

// A queue is a heap of events. What is moved about in it has no pointers, which is much cheaper.
type queue struct {
	heap   []place
	events []event
	free   []int32
	order  uint64
}

type place struct {
	at    time.Duration
	order uint64
	event int32
}

func (p *place) before(q *place) bool { return p.at < q.at || p.at == q.at && p.order < q.order }

func (q *queue) Len() int { return len(q.heap) }

func (q *queue) push(at time.Duration, e *event) {
	var slot int32
	if n := len(q.free); n > 0 {
		slot, q.free = q.free[n-1], q.free[:n-1]
		q.events[slot] = *e
	} else {
		slot = int32(len(q.events)) //nolint:gosec // a schedule has not so many
		q.events = append(q.events, *e)
	}
	q.order++
	q.heap = append(q.heap, place{at, q.order, slot})
	for i := len(q.heap) - 1; i > 0 && q.heap[i].before(&q.heap[(i-1)/2]); i = (i - 1) / 2 {
		q.heap[i], q.heap[(i-1)/2] = q.heap[(i-1)/2], q.heap[i]
	}
}

func (q *queue) pop() (at time.Duration, e event) {
	first, last := q.heap[0], len(q.heap)-1
	q.heap[0] = q.heap[last]
	q.heap = q.heap[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2; child++ {
			if child < last && q.heap[child].before(&q.heap[least]) {
				least = child
			}
		}
		if least == i {
			break
		}
		q.heap[i], q.heap[least] = q.heap[least], q.heap[i]
		i = least
	}
	q.free = append(q.free, first.event)
	return first.at, q.events[first.event]
}

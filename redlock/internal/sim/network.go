package sim

import (
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// The weather is how messages fare while there are faults, in so many of a thousand cases.
type weather struct {
	lose     int
	twice    int // delivered more than once
	slow     int // longer than a node's timeout
	slower   int // about as long as a short ttl; not to or from the first client
	verySlow int // longer than a ttl
	fixed    bool

	// An ambush is a fault that comes just when a node has said yes.
	ambush   int
	ambushOp vote.Op
	kind     int
}

const (
	fastest = 100 * time.Microsecond
	fast    = 1500 * time.Microsecond
	slow    = 80 * time.Millisecond
)

// transmit sends a request on its way.
func (w *world) transmit(c *client, a *actor, s *vote.Send) {
	req := s.Request
	e := event{do: arrives, atNode: true, client: c, actor: a, node: s.Node, seq: s.Seq, req: &req}
	if a != nil {
		e.life = a.lifeOf(req.Value)
		e.life.seen(w.now)
		if req.Op == vote.Take || req.Op == vote.Keep {
			e.life.set = w.now
		}
	}
	if w.lost(c, s.Node) {
		if w.trace != nil {
			w.note("%s %s to node %d is lost", who(&e), describe(&req), s.Node)
		}
		return
	}
	copies := w.copies()
	e.twice = copies > 1
	for range copies {
		w.deliver(&e)
	}
}

// deliver lets a message arrive, after some time.
func (w *world) deliver(e *event) {
	t := w.now + w.delay(e.client, e.node)
	e.life.seen(t)
	w.at(t, *e)
}

// lost reports whether a message between a client and a node gets lost.
func (w *world) lost(c *client, node int) bool {
	if w.now >= w.calm {
		return false
	}
	if c.cut[node] > w.now || w.chance(w.weather.lose) {
		w.report.Seen[drops]++
		return true
	}
	return false
}

// copies is how often a message is delivered.
func (w *world) copies() int {
	if w.now < w.calm && w.chance(w.weather.twice) {
		w.report.Seen[doubles]++
		return 2
	}
	return 1
}

// delay is how long a message takes. Messages overtake each other.
func (w *world) delay(c *client, node int) time.Duration {
	switch {
	case w.weather.fixed:
		if node%len(w.clients) == c.number {
			return fastest
		}
		return 3 * fastest
	case w.now < w.calm && w.chance(w.weather.verySlow):
		w.report.Seen[crawls]++
		return w.between(slow, c.life()*9/5)
	case w.now < w.calm && c.number > 0 && w.chance(w.weather.slower):
		return w.between(slow, 5*slow)
	case w.now < w.calm && w.chance(w.weather.slow):
		return w.between(fast, slow)
	}
	return w.between(fastest, fast)
}

// life is how long the nodes keep a key of this client.
func (c *client) life() time.Duration { return c.ttl + c.grace }

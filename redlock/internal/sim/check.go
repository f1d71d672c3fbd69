package sim

import (
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// believed checks a claim that was just granted or renewed.
func (w *world) believed(a *actor, ticket uint64, first bool) {
	highest := w.highest[a.key]
	w.highest[a.key] = max(highest, ticket)
	switch {
	case !w.ordered():
	case first && ticket <= highest:
		w.complain(Order, "%s is granted ticket %d, after %d", a.label, ticket, highest)
	case !first && ticket != highest && a.broken == 0 && a.claim.Holds(a.local(w)):
		w.complain(Order, "%s holds on with ticket %d, after %d was granted", a.label, ticket, highest)
	}
	if a.broken != 0 {
		if a.ended && a.kept > a.broken {
			w.complain(Broken, "%s was broken, and is kept", a.label)
		}
		return // it does not know it yet
	}
	if o := w.other(a.client); o != nil && a.claim.Holds(a.local(w)) && !w.jumpy {
		w.complain(Overlap, "%s holds, and so does %s", a.label, o.label)
	}
}

// other returns a claim of another client on the same lock that its holder believes to be held, or nil.
func (w *world) other(than *client) *actor {
	for _, c := range w.clients {
		if o := c.actor; o != nil && c != than && c.key == than.key && c.alive && o.broken == 0 &&
			o.claim.Holds(o.local(w)) {
			return o
		}
	}
	return nil
}

// ordered reports whether the order of tickets is promised.
func (w *world) ordered() bool { return !w.wild && !w.jumpy && !w.rules.Unsaved }

// A life is the history of one try as an observer knows it: whether it is over, and when a message about it was last in
// transit.
type life struct {
	value  string
	over   bool
	end0   time.Duration
	active time.Duration // the last time at which a message about it was sent, or arrives
	set    time.Duration // the last time at which a request was sent that can set the key
	orphan bool          // nobody can be expected to release it
}

// seen notes that a message about the try is in transit until at.
func (l *life) seen(at time.Duration) {
	if l != nil {
		l.active = max(l.active, at)
	}
}

// end notes that the try is over: from now on its keys must be removed.
func (l *life) end(w *world, a *actor) {
	if l == nil || l.over {
		return
	}
	l.over, l.end0 = true, w.now
	for i, s := range w.nodes {
		if s.node.Keys[a.key].Value == l.value {
			w.suspect(a, l, i)
		}
	}
}

// idle returns how long a key that must be removed may stay without a message about it: longer than the longest pause
// between two releases.
func (c *client) idle() time.Duration {
	return c.life()/4 + slow + 20*time.Millisecond
}

// watch is called when a node has set a key.
func (w *world) watch(e *event, s *server) {
	if e.twice {
		e.life.orphan = true // the network did it, behind everybody's back
	}
	if e.life.over {
		w.suspect(e.actor, e.life, s.number)
	}
}

// suspect schedules a check that a key which must be removed does not stay.
func (w *world) suspect(a *actor, l *life, node int) {
	if l.orphan || w.off.Has(vote.OwnValues) { // then tries cannot be told apart
		return
	}
	idle := a.idle()
	w.at(max(l.active, w.now)+idle, event{node: node, do: func(w *world, e *event) {
		s := w.nodes[e.node]
		k, now := s.node.Keys[a.key], s.clock(w.now)
		switch {
		case l.orphan || !a.alive || s.dead || s.stepped || s.broke > l.end0 || k.Value != l.value ||
			now.Milliseconds() > k.End:
		case !s.up || a.frozen+idle > w.now || l.active+idle > w.now:
			w.suspect(a, l, e.node)
		default:
			w.complain(Residue, "%s is over for %v, and node %d has its key, on which nobody works", l.value,
				w.now-l.end0, e.node)
		}
	}})
}

// excuse handles a message that arrives when a key may have lived for this many hundredths of its time: no client can
// be expected to release it then.
func (l *life) excuse(w *world, e *event, hundredths int) {
	if l != nil && l.over && w.now-l.set > e.client.life()*time.Duration(hundredths)/100 {
		l.orphan = true
	}
}

// lifeOf returns the try that a value belongs to, or nil.
func (a *actor) lifeOf(value string) *life {
	if a.life != nil && (a.life.value == value || a.life.value == "") {
		return a.life
	}
	for _, l := range a.past {
		if l.value == value {
			return l
		}
	}
	return nil
}

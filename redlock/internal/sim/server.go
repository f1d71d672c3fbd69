package sim

import (
	"fmt"
	"maps"
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// A server is a simulated node with its clock, its process and its faults.
type server struct {
	node   vote.Node
	number int
	rate   rate
	offset time.Duration
	runs   int
	run    string
	up     bool
	saved  *vote.Node // a copy of its data of some time ago
	broke  time.Duration

	dead    bool // it is down, and stays so
	stepped bool // its clock has jumped: keys may outlive those who work on them
}

// clock returns the time by the server's clock at a true time.
func (s *server) clock(t time.Duration) time.Duration { return s.offset + s.rate.from(t) }

// start starts a new process of the server.
func (s *server) start() {
	s.up = true
	s.runs++
	s.run = fmt.Sprintf("%d.%d", s.number, s.runs)
}

// votes reports whether the node has a vote, and will still have it when it responds.
func (s *server) votes() bool {
	r := s.node.Record
	return !s.dead && r != nil && r.Votes && (r.Run == s.run || r.Trusted != 0)
}

// othersSuffice reports whether a majority has its vote without a node.
func (w *world) othersSuffice(s *server) bool {
	voters := 0
	for _, o := range w.nodes {
		if o != s && o.votes() {
			voters++
		}
	}
	return voters >= w.rules.Majority()
}

// mayLose reports whether a node may lose its vote now: a majority must keep theirs, except in wild schedules.
func (w *world) mayLose(s *server) bool { return w.wild || !s.votes() || w.othersSuffice(s) }

// arrives handles the arrival of a request at a node.
func arrives(w *world, e *event) {
	s := w.nodes[e.node]
	if !s.up {
		if w.trace != nil {
			w.note("node %d is down: %s %s is lost", e.node, who(e), describe(e.req))
		}
		w.refused(e)
		return
	}
	was := s.node.Keys[e.req.Key]
	a, freed := s.node.Do(s.clock(w.now), s.run, e.req)
	if w.trace != nil {
		w.note("node %d: %s %s: %s", e.node, who(e), describe(e.req), tell(&a))
	}
	if is := s.node.Keys[e.req.Key]; is != was && is.Value == e.req.Value && e.life != nil {
		w.watch(e, s)
	}
	w.spring(e, &a)
	w.reply(e, &a)
	if freed {
		w.report.Seen[pushes]++
		for _, c := range w.clients {
			if c.alive && c.key == e.req.Key && !w.chance(w.weather.lose) {
				w.at(w.now+w.delay(c, e.node), event{do: pushed, client: c, node: e.node})
			}
		}
	}
}

// reply schedules the delivery of a node's response: never, once or more than once.
func (w *world) reply(e *event, a *vote.Answer) {
	if e.client == nil {
		return
	}
	answer := *e
	answer.do, answer.ans, answer.atNode = answered, a, false
	if w.lost(e.client, e.node) {
		if w.trace != nil {
			w.note("the answer of node %d to %s is lost", e.node, who(e))
		}
		e.life.excuse(w, e, 95) // a take so late that its tombstone was gone
		return
	}
	for range w.copies() {
		w.deliver(&answer)
	}
}

// refused handles a request to a node that is down. At times the client gets an error at once, and at times no
// response.
func (w *world) refused(e *event) {
	if w.chance(500) {
		w.reply(e, &vote.Answer{Code: vote.Failed, Unsent: !e.twice && w.chance(500)})
	}
}

// What can happen to a server.

// crash stops a server for the duration down. It keeps its data, loses it, or returns with an old copy.
func (w *world) crash(s *server, keep bool, down time.Duration) {
	if !s.up {
		return
	}
	s.up, s.broke, s.run = false, w.now, ""
	switch {
	case keep:
		w.saw(restarts, "node %d crashes, and keeps its data", s.number)
	case s.saved != nil && w.chance(300):
		w.saw(restores, "node %d crashes, and comes back with old data", s.number)
		s.node, s.saved = *s.saved, nil
	default:
		w.saw(losses, "node %d crashes, and its data is lost", s.number)
		s.node = vote.Node{Off: w.off}
	}
	w.at(w.now+down, event{do: func(w *world, _ *event) {
		if s.dead {
			return
		}
		s.start()
		w.note("node %d is up, run %s", s.number, s.run)
	}})
}

// flush makes a node lose its data without a restart.
func (w *world) flush(s *server) {
	w.saw(losses, "node %d is flushed", s.number)
	s.broke = w.now
	s.node = vote.Node{Off: w.off}
}

// save stores a copy of the data of a server, which a later crash may restore.
func (s *server) save() {
	if s.node.Record == nil {
		return
	}
	record := *s.node.Record
	record.Trusted = 0 // an operator does not lie
	s.saved = &vote.Node{
		Record: &record, Keys: maps.Clone(s.node.Keys), Tombs: maps.Clone(s.node.Tombs), Off: s.node.Off,
	}
}

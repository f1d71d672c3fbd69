package sim

import (
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// The kinds of faults.
const (
	loseData = iota
	flushData
	restart
	restartTrusted
	pauseClient
	killClient
	cutLink
	saveData
	setBack
	breakLock
	kinds
)

// planFaults draws the faults: what happens to which node or client, and when.
func (w *world) planFaults() {
	var weights [kinds]int
	most := 9
	switch w.theme {
	case anything:
		for i := range weights {
			weights[i] = w.random.IntN(4)
		}
	case amnesia:
		weights = [kinds]int{loseData: 3, flushData: 2, restartTrusted: 4, cutLink: 6, saveData: 1}
		most = 24
	case mud:
		weights = [kinds]int{pauseClient: 2, cutLink: 2, restartTrusted: 1}
		most = 5
	case ambushes:
		weights = [kinds]int{cutLink: 4, restartTrusted: 1, pauseClient: 1}
		most = 12
	case fickle:
		weights = [kinds]int{cutLink: 1}
		most = 6
	case sleepers:
		weights = [kinds]int{cutLink: 1}
		most = 2
	case lockstep:
		return
	}
	weights[saveData]++
	for range w.random.IntN(most) {
		kind := w.weighted(&weights)
		s := w.nodes[w.random.IntN(len(w.nodes))]
		c := w.clients[w.random.IntN(len(w.clients))]
		d := w.between(0,
			[]time.Duration{5 * time.Millisecond, 100 * time.Millisecond, maxTTL * 3 / 2}[w.random.IntN(3)])
		if w.theme == amnesia && (kind == restartTrusted || kind == cutLink) {
			d = w.between(0, 2*maxTTL) // so that others are asked in the meantime
		}
		w.at(w.between(0, w.calm), event{do: func(w *world, _ *event) { w.strike(kind, s, c, d) }})
	}
}

func (w *world) weighted(weights *[kinds]int) int {
	total := 0
	for _, n := range weights {
		total += n
	}
	pick := w.random.IntN(total)
	for kind, n := range weights {
		if pick < n {
			return kind
		}
		pick -= n
	}
	return saveData
}

// spring lets an ambush happen: a fault that comes just when a node has said yes. To a take that is of interest when
// another client holds.
func (w *world) spring(e *event, a *vote.Answer) {
	op, yes := w.weather.ambushOp, a.Code == vote.Granted || a.Code == vote.Kept
	if !yes || e.req.Op != op || w.now >= w.calm ||
		op == vote.Take && w.theme != sleepers && w.other(e.client) == nil ||
		!w.chance(w.weather.ambush) {
		return
	}
	d := w.between(0, 2*time.Millisecond)
	if w.weather.kind == pauseClient {
		d = w.between(0, e.client.life()*3/2)
	}
	if w.theme == sleepers {
		d = w.between(e.client.life()*4/5, e.client.life()*2)
	}
	s, c := w.nodes[e.node], e.client
	w.at(w.now+w.between(0, 2*time.Millisecond),
		event{do: func(w *world, _ *event) { w.strike(w.weather.kind, s, c, d) }})
}

// strike is one fault.
func (w *world) strike(kind int, s *server, c *client, d time.Duration) {
	switch kind {
	case loseData, restart:
		if w.mayLose(s) {
			w.crash(s, kind == restart, d)
		}
	case flushData:
		if w.mayLose(s) && s.up {
			w.flush(s)
		}
	case restartTrusted:
		if s.up && s.node.Record != nil {
			w.report.Seen[trusts]++
			s.node.Do(s.clock(w.now), s.run, &vote.Request{Op: vote.Trust, MaxTTL: s.node.Record.MaxTTL})
			w.crash(s, true, d)
		}
	case pauseClient:
		w.saw(pauses, "client %s is paused for %v", name(c.number), d)
		c.frozen = max(c.frozen, w.now+d)
	case killClient:
		w.kill(c)
	case cutLink:
		w.note("%s and node %d are cut off for %v", name(c.number), s.number, d)
		c.cut[s.number] = max(c.cut[s.number], w.now+d)
	case saveData:
		s.save()
	case setBack:
		w.stepClock(s, d)
	case breakLock:
		w.breakLock(c)
	}
}

// stepClock sets a node's clock back. Then keys live longer and quarantines last longer, which harms nobody. Where a
// clock may jump, it also goes ahead.
func (w *world) stepClock(s *server, d time.Duration) {
	w.report.Seen[clockSteps]++
	s.stepped = true
	if w.jumpy && w.chance(500) {
		d = -d
	}
	s.offset -= d
	w.note("the clock of node %d is set back by %v", s.number, d)
}

// breakLock is an operator who takes a lock away. Where a node cannot be reached the key stays.
func (w *world) breakLock(c *client) {
	a := c.actor
	if a == nil || a.ticket == 0 || !a.claim.Holds(a.local(w)) {
		return
	}
	w.report.Seen[breaks]++
	broken := 0
	for _, s := range w.nodes {
		if !s.up || w.chance(100) {
			continue
		}
		req := vote.Request{Op: vote.Break, MaxTTL: maxTTL, Key: a.key, Ticket: a.ticket, TTL: maxTTL}
		if said, _ := s.node.Do(s.clock(w.now), s.run, &req); said.Code == vote.Granted {
			broken++
		}
	}
	w.note("%s is broken at %d nodes", a.label, broken)
	if broken > 0 {
		a.broken, a.ended = w.now, broken >= w.rules.Majority()
	}
}

// bury takes a minority of nodes down for good when faults stop, if a majority has its vote without them.
func (w *world) bury() {
	for _, s := range w.nodes[:w.rules.Nodes-w.rules.Majority()] {
		if w.othersSuffice(s) {
			s.up, s.dead = false, true
			w.note("node %d is down for good", s.number)
		}
	}
}

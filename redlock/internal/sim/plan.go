package sim

import (
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

const (
	maxTTL   = time.Second
	oddTTL   = 3 * time.Second // of a client that is set up wrongly
	drift    = 0.01
	patience = 30 * time.Second // in which all get in when faults have stopped
	epoch    = 1_000_000 * time.Second
)

// A theme is what a schedule is mostly about. A world in which everything is bad at all times hides more than it shows.
type theme uint8

const (
	anything theme = iota // some of everything
	amnesia               // nodes lose their data, and links are cut
	mud                   // messages are slow, and holds are short
	ambushes              // faults come just when a node has said yes
	fickle                // nodes forget at once what they granted to a second, and rounds last long
	sleepers              // clients are paused just when a node has said yes
	lockstep              // all clients do the same at the same time
)

// themes has each theme as often as its weight; lockstep is drawn apart.
var themes = []theme{
	anything, anything, anything, amnesia, amnesia, amnesia, amnesia, mud, ambushes, fickle, fickle, fickle, fickle,
	sleepers,
}

// plan draws the schedule: all random choices that are made before the simulation begins.
func (w *world) plan() {
	w.rules = vote.Rules{
		Nodes: []int{3, 3, 3, 5, 5}[w.random.IntN(5)], MaxTTL: maxTTL, DriftPart: drift,
		Retry: 2 * time.Millisecond, Poll: 200 * time.Millisecond, Without: w.off, Unsaved: w.chance(50),
		Chance: func(d time.Duration) time.Duration { return time.Duration(w.random.Int64N(int64(d))) },
	}
	w.theme = themes[w.random.IntN(len(themes))]
	w.wild = w.theme == anything && w.chance(200)
	w.jumpy = w.theme == anything && w.chance(50)
	w.odd = w.theme <= amnesia && w.chance(250)
	w.blind = w.chance(300)
	w.calm = w.between(time.Second, 4*time.Second)
	switch {
	case w.chance(30):
		w.theme, w.calm = lockstep, 0
	case w.theme == amnesia:
		w.rules.Nodes = []int{3, 3, 3, 5}[w.random.IntN(4)]
	case w.theme == fickle:
		w.rules.Nodes, w.rules.Unsaved = 3, w.chance(900)
		w.rules.NodeTimeout = w.between(200*time.Millisecond, maxTTL)
	case w.theme == ambushes:
		w.rules.Unsaved = w.chance(300)
		fallthrough
	case w.theme == mud || w.chance(200):
		w.rules.NodeTimeout = w.between(10*time.Millisecond, 300*time.Millisecond)
	}
	w.planNodes()
	w.planClients()
	w.planWeather()
	w.planFaults()
	if w.theme != lockstep && w.chance(100) {
		w.at(w.calm, event{do: func(w *world, _ *event) { w.bury() }})
	}
	w.end = w.calm + patience
	if w.odd {
		w.end = w.calm + oddTTL
	}
	if w.trace != nil {
		w.note("%d nodes, %d clients, theme %d, faults until %v, weather %+v, wild %t, tickets %t",
			w.rules.Nodes, len(w.clients), w.theme, w.calm, w.weather, w.wild, !w.rules.Unsaved)
	}
}

func (w *world) planNodes() {
	fresh := w.wild && w.chance(200)
	for i := range w.rules.Nodes {
		s := &server{
			node: vote.Node{Off: w.off}, number: i, rate: w.rate(), offset: epoch + w.between(0, 10*time.Minute),
		}
		s.start()
		if !fresh {
			s.node.Do(s.clock(0), s.run, &vote.Request{Op: vote.Init, MaxTTL: maxTTL})
		}
		w.nodes = append(w.nodes, s)
	}
}

// rate is of a clock that keeps to the drift: any two differ by less than one part in a hundred.
func (w *world) rate() rate { return rate(w.between(-4_900_000, 4_900_000)) }

func (w *world) planClients() {
	n := 2 + w.random.IntN(3)
	switch w.theme {
	case lockstep:
		n = w.rules.Nodes
	case fickle:
		n = 2
	case anything, amnesia, mud, ambushes, sleepers:
	}
	two := n > 2 && w.theme <= amnesia && w.chance(200)
	for i := range n {
		c := w.planClient(i)
		if two && i%2 == 1 {
			c.key = otherKey
		}
		if w.odd && i == 0 {
			rules := w.rules
			rules.MaxTTL = oddTTL
			c.rules, c.ttl, c.grace = &rules, oddTTL, 0
		}
		start := w.between(0, w.calm/2)
		if w.theme == lockstep {
			start, c.rate, c.ttl, c.grace = 0, 0, maxTTL, 0
		}
		c.admitter = vote.NewAdmitter(c.rules)
		w.clients = append(w.clients, c)
		w.wanting++
		w.at(start, event{do: begin, client: c})
	}
}

func (w *world) planClient(number int) *client {
	c := &client{
		number: number, rules: &w.rules, key: lockKey, rate: w.rate(), alive: true, rounds: 1 + w.random.IntN(4),
		ttl: []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, maxTTL}[w.random.IntN(3)],
		holdFor: w.between(time.Millisecond,
			[]time.Duration{5 * time.Millisecond, 1200 * time.Millisecond}[w.random.IntN(2)]),
		think:    w.between(0, []time.Duration{2 * time.Millisecond, 800 * time.Millisecond}[w.random.IntN(2)]),
		keepAt:   []int{33, 33, 33, 70, 93}[w.random.IntN(5)],
		renews:   !w.chance(250),
		goesOver: w.chance(100),
		others:   map[*actor]bool{}, cut: make([]time.Duration, w.rules.Nodes),
	}
	switch w.theme {
	case amnesia:
		c.rounds += 4
		c.think = w.between(0, 400*time.Millisecond)
		if w.chance(700) {
			c.holdFor = w.between(0, 30*time.Millisecond)
		}
	case mud:
		c.rounds += 3
		c.holdFor = w.between(0, 5*time.Millisecond)
	case ambushes:
		c.rounds += 3
		c.keepAt = 33 + w.random.IntN(60)
		c.holdFor = w.between(0, 3*c.ttl)
	case fickle:
		c.rounds, c.think, c.renews, c.goesOver = 8, fast, true, false
		c.ttl, c.holdFor, c.keepAt = maxTTL, fast, 50+w.random.IntN(40)
		if number == 0 {
			c.ttl, c.holdFor = 250*time.Millisecond, w.between(200*time.Millisecond, 800*time.Millisecond)
		}
	case sleepers:
		c.rounds += 4
		c.ttl, c.renews, c.keepAt = 250*time.Millisecond, true, 33+w.random.IntN(65)
		c.holdFor, c.think = w.between(0, 3*fast), w.between(0, slow)
		if number == 0 {
			c.holdFor = w.between(c.ttl, 4*c.ttl)
		}
	case anything, lockstep:
	}
	if w.theme == anything && w.chance(100) { // it knows a ticket that no node here does
		seen := epoch + w.between(11*time.Minute, 15*time.Minute)
		c.floor = uint64(seen.Microseconds()) //nolint:gosec // after 1970
	}
	if c.ttl < maxTTL && w.chance(100) {
		c.grace = c.ttl / 2
	}
	c.goesOver = c.goesOver || !c.renews && w.chance(500)
	return c
}

// pick gives one of the values in so many of a thousand cases, and 0 in the others.
func (w *world) pick(permille int, values ...int) int {
	if w.chance(permille) {
		return values[w.random.IntN(len(values))]
	}
	return 0
}

// planWeather draws the conditions of messages: how slow they are, how many are lost or duplicated, and which faults
// strike just when a node has granted a request.
func (w *world) planWeather() {
	switch w.theme {
	case anything:
		w.weather = weather{
			lose: w.pick(400, 10, 50, 250), twice: w.pick(300, 20, 200), slow: w.pick(400, 20, 100, 400),
			verySlow: w.pick(250, 5, 30), ambush: w.pick(200, 20, 100),
		}
	case amnesia:
		w.weather = weather{lose: w.pick(200, 10, 50), slow: w.pick(200, 20, 100)}
	case mud:
		w.weather = weather{
			lose: w.pick(300, 20, 100), twice: w.pick(100, 50), slow: w.pick(900, 300, 500),
			verySlow: w.pick(200, 20),
		}
	case ambushes:
		w.weather = weather{lose: w.pick(200, 50), slow: w.pick(500, 100, 300), ambush: w.pick(1000, 50, 150, 400)}
	case fickle:
		w.weather = weather{lose: w.pick(1000, 100, 200), slower: w.pick(1000, 200, 400), ambush: 700}
		w.weather.ambushOp, w.weather.kind = vote.Take, flushData
		return
	case sleepers:
		w.weather = weather{lose: w.pick(300, 20), slow: w.pick(500, 50, 200), ambush: w.pick(1000, 50, 150)}
		w.weather.ambushOp, w.weather.kind = []vote.Op{vote.Take, vote.Raise, vote.Keep, vote.Keep}[w.random.IntN(4)],
			pauseClient
		return
	case lockstep:
		w.weather = weather{fixed: true}
	}
	w.weather.ambushOp = []vote.Op{vote.Take, vote.Take, vote.Take, vote.Raise, vote.Keep, vote.Admit}[w.random.IntN(6)]
	w.weather.kind = []int{loseData, flushData, flushData, pauseClient}[w.random.IntN(4)]
}

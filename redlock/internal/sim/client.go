package sim

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// lockKey is the lock that clients compete for; in some schedules a part of them uses otherKey. The nodes' marks are
// shared by both.
const (
	lockKey  = "lock"
	otherKey = "other lock"
)

// calmHold is how long a lock is held after faults have stopped, so that all clients acquire it soon.
const calmHold = 50 * time.Millisecond

// A client is one process. It acquires the lock several times, with one claim after the other.
type client struct {
	number   int
	rules    *vote.Rules
	key      string // what it wants
	rate     rate
	ttl      time.Duration
	grace    time.Duration
	holdFor  time.Duration // how long it holds, at most
	think    time.Duration // between two claims
	renews   bool
	keepAt   int  // after so many hundredths of the ttl
	goesOver bool // it does not leave before its time is over
	rounds   int  // claims that it still wants to make

	alive    bool
	frozen   time.Duration // up to when it is paused
	claims   int
	floor    uint64
	actor    *actor // its claim of the moment
	admitter *vote.Admitter
	guess    vote.Guess
	cut      []time.Duration // up to when it cannot reach each node
	others   map[*actor]bool // earlier claims that are still released
}

// An actor is a claim with the times at which it has something to do.
type actor struct {
	*client
	claim   *vote.Claim
	label   string
	wakeAt  time.Duration
	againAt time.Duration
	ticket  uint64
	kept    time.Duration // when it last asked to be kept
	broken  time.Duration // when an operator took the lock away, at some node; 0: nobody did
	ended   bool          // and at a majority: it must not be kept any more
	life    *life         // of the try of the moment
	past    []*life       // and of those before
	tries   int
}

// local returns the time by the client's clock.
func (c *client) local(w *world) time.Duration { return c.rate.from(w.now) }

// hinder reports whether an event does not happen now, since the client is paused or dead. If it is paused, the event
// is postponed.
func (c *client) hinder(w *world, e *event) bool {
	if !c.alive {
		return true
	}
	if c.frozen > w.now {
		w.at(c.frozen, *e)
		return true
	}
	return false
}

// pace returns the time between two renewals.
func (c *client) pace() time.Duration { return c.ttl * time.Duration(c.keepAt) / 100 }

// begin makes the next claim of a client, and tries to acquire the lock.
func begin(w *world, e *event) {
	c := e.client
	c.claims++
	a := &actor{client: c, label: name(c.number) + strconv.Itoa(c.claims)}
	a.claim = vote.NewClaim(c.rules, c.key, a.label, c.ttl, c.grace)
	c.actor = a
	a.try(w)
}

// try starts an attempt to acquire the lock.
func (a *actor) try(w *world) {
	w.note("%s tries", a.label)
	a.tries++
	if a.tries > 1 {
		w.report.Seen[retries]++
	}
	if a.life != nil {
		a.life.end(w, a)
		a.past = append(a.past, a.life)
	}
	a.life = &life{}
	guess := uint64(0)
	if !w.blind {
		guess = a.guess.Next(a.local(w))
	}
	s := a.claim.Try(a.local(w), a.floor, guess)
	a.life.value = a.claim.Value()
	a.step(w, s)
}

// step carries out a step of the claim: it sends its requests, sets its timers, and handles its result.
func (a *actor) step(w *world, s vote.Step) {
	for i := range s.Send {
		w.transmit(a.client, a, &s.Send[i])
	}
	if s.Wake != 0 && s.Wake != a.wakeAt {
		w.at(a.rate.to(s.Wake), event{do: wakes, client: a.client, actor: a, due: s.Wake})
	}
	a.wakeAt = s.Wake
	if s.Again != 0 && s.Again != a.againAt {
		w.at(a.rate.to(s.Again), event{do: triesAgain, client: a.client, actor: a, due: s.Again})
	}
	a.againAt = s.Again
	a.result(w, &s.Result)
	if a.others[a] && a.claim.Finished() {
		delete(a.others, a)
	}
}

// result handles the result of a call as a program would: it holds the lock, tries again, or begins another claim.
func (a *actor) result(w *world, r *vote.Result) {
	switch r.Verdict {
	case vote.Won:
		a.won(w, r)
	case vote.Lost, vote.Faulty:
		if a.claim.State() == vote.Waiting {
			w.saw(lost, "%s has lost, and tries again", a.label)
			a.life.end(w, a)
		} else {
			w.saw(faulty, "%s: not acknowledged by a majority", a.label)
		}
	case vote.Gone:
		w.saw(gone, "%s is gone", a.label)
		a.over(w)
	case vote.Free:
		w.note("%s is free", a.label)
	}
}

// won notes a grant or a renewal. After a grant it schedules the release and the renewals.
func (a *actor) won(w *world, r *vote.Result) {
	first := a.ticket == 0
	w.note("%s holds until %v of its clock, with ticket %d, by %d", a.label, r.Until, r.Ticket, a.claim.Counted())
	w.believed(a, r.Ticket, first)
	a.ticket = r.Ticket
	a.floor = max(a.floor, r.Ticket)
	if !first {
		w.report.Seen[renewals]++
		return
	}
	w.report.Seen[grants]++
	hold := a.holdFor
	if w.now >= w.calm {
		hold = min(hold, calmHold)
	}
	if a.goesOver {
		hold = a.rate.to(r.Until) - w.now
	}
	w.at(w.now+hold, event{do: leaves, client: a.client, actor: a})
	if a.renews {
		w.at(w.now+a.pace(), event{do: keeps, client: a.client, actor: a})
	}
}

// over ends the current claim, and schedules the next.
func (a *actor) over(w *world) {
	if a.actor != a {
		return
	}
	a.life.end(w, a)
	a.actor = nil
	if !a.claim.Finished() {
		a.others[a] = true
	}
	a.rounds--
	if a.rounds <= 0 {
		w.wanting--
		return
	}
	w.at(w.now+a.think, event{do: begin, client: a.client})
}

// The events of a client.

func wakes(w *world, e *event) {
	if e.actor.wakeAt == e.due {
		e.actor.step(w, e.actor.claim.Wake(e.actor.local(w)))
	}
}

func triesAgain(w *world, e *event) {
	if e.actor.againAt == e.due && e.actor.claim.State() == vote.Waiting {
		e.actor.try(w)
	}
}

func keeps(w *world, e *event) {
	a := e.actor
	if a.actor != a || a.claim.State() != vote.Held {
		return
	}
	a.kept = w.now
	a.step(w, a.claim.Keep(a.local(w)))
	w.at(w.now+a.pace(), *e)
}

func leaves(w *world, e *event) {
	a := e.actor
	if a.actor != a || a.claim.State() != vote.Held {
		return
	}
	w.note("%s leaves", a.label)
	a.life.end(w, a)
	a.step(w, a.claim.Leave(a.local(w)))
	a.over(w)
}

func answered(w *world, e *event) {
	c := e.client
	e.life.excuse(w, e, 195) // the client has forgotten the try
	c.guess.Saw(c.local(w), e.ans.Mark)
	if w.trace != nil {
		w.note("%s hears of node %d: %s", who(e), e.node, tell(e.ans))
	}
	if e.actor == nil {
		c.admit(w, c.admitter.Answer(c.local(w), e.node, e.seq, *e.ans))
		return
	}
	e.actor.step(w, e.actor.claim.Answer(c.local(w), e.node, e.seq, *e.ans))
	c.admit(w, c.admitter.Notice(c.local(w), e.node, e.ans))
}

// admit carries out a step of the admitter.
func (c *client) admit(w *world, s vote.Step) {
	for i := range s.Send {
		if s.Send[i].Request.Op == vote.Admit {
			w.report.Seen[admissions]++
		}
		w.transmit(c, nil, &s.Send[i])
	}
	if s.Wake != 0 {
		w.at(c.rate.to(s.Wake),
			event{client: c, do: func(w *world, _ *event) { c.admit(w, c.admitter.Wake(c.local(w))) }})
	}
}

func pushed(w *world, e *event) {
	if a := e.client.actor; a != nil {
		a.step(w, a.claim.Push(a.local(w), e.node))
	}
}

// kill ends a client abruptly: it sends nothing more.
func (w *world) kill(c *client) {
	if !c.alive {
		return
	}
	w.saw(deaths, "client %s dies", name(c.number))
	if c.rounds > 0 {
		w.wanting--
	}
	c.alive = false
	c.actor.mourn()
	for a := range c.others {
		a.mourn()
	}
}

// mourn marks the keys of a claim whose client is dead.
func (a *actor) mourn() {
	if a != nil && a.life != nil {
		a.life.orphan = true
	}
}

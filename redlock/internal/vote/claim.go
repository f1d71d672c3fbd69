package vote

import (
	"strconv"
	"time"
)

// State is the state of a claim, as its client knows it.
type State uint8

// The states of a claim.
const (
	Fresh   State = iota // it has not tried yet
	Trying               // a take is in progress
	Waiting              // the last take lost or failed: it holds nothing, and may try again
	Held                 // it holds, while the clock is before its Until
	Over                 // it has left, or is lost permanently
)

// A Verdict is how a call of a claim ended.
type Verdict uint8

// The verdicts.
const (
	// Won: it holds until Until.
	Won Verdict = iota + 1
	// Lost is for Try: another claim has the lock, or the votes were split. It holds nothing.
	Lost
	// Faulty: too many nodes failed or have no vote. After Try it holds nothing; after Keep it was not renewed, and the
	// old Until remains; after Leave it continues to release.
	Faulty
	// Gone is for Keep: it has expired, and its grace too, or so many nodes have another value that no majority is
	// left.
	Gone
	// Free is for Leave: at a majority of nodes there is no key of this claim.
	Free
)

// A Result is the result of Try, Keep or Leave.
type Result struct {
	Verdict Verdict
	Ticket  uint64        // Won
	Until   time.Duration // Won: until when it holds if it is not kept again
	Again   time.Duration // Lost, and Faulty after Try: when to try again, if no push comes before
	Awaits  int           // Lost, and Faulty after Try: the node to expect a push from, which the next try begins with
	Holder  Answer        // Lost: the answer of a node about the holder; its Code is Denied if there is one
}

// A Step is what to do for a claim after an event.
type Step struct {
	Send   []Send // to be sent now; the claim reuses the slice in the next step
	Result Result // of the call in progress, once for each call; Verdict 0: not yet
	// All nodes have answered the last take or keep, or timed out: if Counted is not all, the claim is in jeopardy.
	Settled bool
	Wake    time.Duration // when to call Wake if nothing happens before; 0: never
	Again   time.Duration // of a claim that waits: when to call Try; a push may change it. 0: never
}

// A Claim is one claim of one client. It is a state machine without a lock: one step at a time.
type Claim struct {
	rules *Rules
	key   string
	id    string
	ttl   time.Duration
	life  time.Duration

	state   State
	call    Op // the call in progress: Take, Keep or Leave; 0: none
	tries   uint64
	cur     *attempt   // the last try; nil before the first
	old     []*attempt // earlier ones that are still being released
	ceiling uint64     // a ticket that was found too high; 0: none
	avoided uint64     // the nodes that did not help in the last try: see first
	pacer   pacer
	send    []Send

	leaveBy   time.Duration // until when to wait for nodes that do not acknowledge a release
	spareFrom time.Duration // and until when, if enough other nodes that work have acknowledged it
}

// NewClaim returns a claim on key. No two claims ever have the same id. The nodes keep the key for ttl and grace, which
// together are not more than the deployment's max-ttl.
func NewClaim(r *Rules, key, id string, ttl, grace time.Duration) *Claim {
	return &Claim{rules: r, key: key, id: id, ttl: ttl, life: ttl + grace, pacer: pacer{Rules: r}}
}

// Try sends a take to all nodes, if the claim is fresh or waits. The ticket will be above floor. It will be the guess
// if a majority accepts that with the take, which saves a round; 0 stands for none: see Guess.
func (c *Claim) Try(now time.Duration, floor, guess uint64) Step {
	if c.state == Fresh || c.state == Waiting {
		c.tries++
		if c.cur != nil && c.cur.phase != done {
			c.old = append(c.old, c.cur) // it is still to be released
		}
		c.cur = &attempt{
			Rules: c.rules, key: c.key, value: c.value(), ttl: c.ttl, life: c.life, try: c.tries, floor: floor,
			ceiling: c.ceiling, began: now, seats: make([]nodeView, c.rules.Nodes), out: &c.send,
		}
		if guess != 0 && c.ceiling == 0 && !c.rules.Without.Has(WriteBack) {
			c.cur.proposal = max(guess, floor+1)
		}
		c.state, c.call = Trying, Take
		if c.probes(now) {
			c.cur.probe(now, c.first())
		} else {
			c.cur.ask(now, Take)
		}
		c.cur.told = c.pacer.told>>c.pacer.awaited&1 != 0
		c.pacer.told, c.pacer.listens = 0, false
	}
	return c.step(now)
}

// value returns the value of the try, which is unique: see attempt.
func (c *Claim) value() string {
	if c.rules.Without.Has(OwnValues) {
		return c.id
	}
	return c.id + "." + strconv.FormatUint(c.tries, 10)
}

// Keep renews the claim at all nodes, if it is held.
func (c *Claim) Keep(now time.Duration) Step {
	switch {
	case c.state != Held:
	case c.expired(now): // a claim that has expired is not extended
		c.call = Keep
	default:
		c.call = Keep
		c.cur.ask(now, Keep)
	}
	return c.step(now)
}

// Leave ends the claim in any state. From now on its holder must not believe that it holds.
func (c *Claim) Leave(now time.Duration) Step {
	c.state, c.call = Over, Leave
	c.leaveBy, c.spareFrom = now+c.rules.Timeout(c.ttl), now+c.rules.Timeout(c.ttl)/4
	if c.cur != nil {
		c.cur.giveUp()
		c.cur.leave(now)
	}
	return c.step(now)
}

// Answer passes the answer of a node to a request of this claim, or the failure of the request. Answers may arrive in
// any order, late and more than once.
func (c *Claim) Answer(now time.Duration, node int, seq uint64, a Answer) Step {
	if h := c.find(tryOf(seq)); h != nil {
		h.answer(now, node, seq, &a)
		if opOf(seq) == Take {
			c.forgive(now, h, node, &a)
		}
	}
	return c.step(now)
}

// Wake passes the time.
func (c *Claim) Wake(now time.Duration) Step { return c.step(now) }

// Push passes that a node has published that the key is free there. It may be wrong. One that arrives during a try
// counts if the try loses: the node may have denied the key before it published.
func (c *Claim) Push(now time.Duration, node int) Step {
	if c.state == Waiting || c.state == Trying {
		c.pacer.freed(now, node)
	}
	return c.step(now)
}

// Listen passes that pushes arrive from now on. A claim that waits has missed earlier ones, so it has to check.
func (c *Claim) Listen(now time.Duration) Step {
	if c.state == Waiting || c.state == Trying {
		c.pacer.listens = true
		c.pacer.hurry(now)
	}
	return c.step(now)
}

// State returns the state of the claim.
func (c *Claim) State() State { return c.state }

// Holds reports whether the claim may believe that it holds at this time.
func (c *Claim) Holds(now time.Duration) bool { return c.state == Held && now < c.cur.until }

// expired reports whether a claim that was held has expired. It never comes back: another claim may have held since,
// with a higher ticket.
func (c *Claim) expired(now time.Duration) bool {
	return now >= c.cur.until && !c.rules.Without.Has(Continuity)
}

// Counted returns how many nodes count for the last take or keep so far.
func (c *Claim) Counted() int { return c.cur.counted() }

// Value returns the value of the last try, as the nodes have it.
func (c *Claim) Value() string { return c.cur.value }

// Finished reports that the claim is over and that nothing is left to be released. It can be dropped.
func (c *Claim) Finished() bool {
	return c.state == Over && len(c.old) == 0 && (c.cur == nil || c.cur.phase == done)
}

// find returns the try with this number, or nil if it is done and forgotten.
func (c *Claim) find(try uint64) *attempt {
	if c.cur != nil && c.cur.try == try {
		return c.cur
	}
	for _, h := range c.old {
		if h.try == try {
			return h
		}
	}
	return nil
}

// step applies the time, decides what can be decided, and returns what to do.
func (c *Claim) step(now time.Duration) (s Step) {
	still := c.old[:0]
	for _, h := range c.old {
		if h.clock(now); h.phase != done {
			still = append(still, h)
			s.Wake = Earlier(s.Wake, h.wake())
		}
	}
	clear(c.old[len(still):])
	c.old = still
	if h := c.cur; h != nil {
		h.clock(now)
		s.Result = c.decide(now, h)
		s.Settled = h.settle()
		s.Wake = Earlier(s.Wake, h.wake())
	} else if c.call == Leave {
		c.call, s.Result.Verdict = 0, Free
	}
	if c.call == Leave {
		s.Wake = Earlier(s.Wake, c.leaveBy)
		if now < c.spareFrom && c.cur.sparable() {
			s.Wake = Earlier(s.Wake, c.spareFrom)
		}
	}
	if c.state == Waiting {
		s.Again = c.pacer.again
	}
	s.Send, c.send = c.send, c.send[:0]
	return s
}

// Earlier returns the earlier of two times, where 0 stands for none.
func Earlier(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

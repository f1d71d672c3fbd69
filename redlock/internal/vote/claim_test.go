package vote

import (
	"slices"
	"testing"
	"time"
)

const testTTL = time.Second

// A try is a claim under test. Its requests lie in sent until the test answers them.
type try struct {
	*testing.T
	*Claim
	now    time.Duration
	sent   []Send
	last   Result
	step   Step
	counts int
}

func newTry(t *testing.T, nodes int, change ...func(*Rules)) *try {
	r := &Rules{
		Nodes:     nodes,
		MaxTTL:    testMax,
		DriftPart: 0.01,
		Chance:    func(d time.Duration) time.Duration { return d / 2 },
	}
	for _, f := range change {
		f(r)
	}
	return &try{T: t, Claim: NewClaim(r, "lock", "id", testTTL, 0)}
}

// trying is a claim whose first try is in progress.
func trying(t *testing.T, nodes int) *try {
	c := newTry(t, nodes)
	c.does(c.Try(0, 0, 0))
	return c
}

// again tries when it is time to. What was sent before is lost.
func (c *try) again() {
	c.now, c.sent = c.step.Again, nil
	c.does(c.Try(c.now, 0, 0))
}

// wake lets the claim see a time.
func (c *try) wake(now time.Duration) {
	c.now = now
	c.does(c.Wake(now))
}

func (c *try) does(s Step) {
	c.step = s
	c.sent = append(c.sent, s.Send...)
	if s.Result.Verdict != 0 {
		c.last = s.Result
	}
	if s.Settled {
		c.counts = c.Counted()
	}
}

// answer answers what was sent to a node, the oldest first.
func (c *try) answer(node int, a Answer) {
	c.Helper()
	i := slices.IndexFunc(c.sent, func(s Send) bool { return s.Node == node })
	if i < 0 {
		c.Fatalf("nothing was sent to node %d", node)
	}
	s := c.sent[i]
	c.sent = slices.Delete(c.sent, i, i+1)
	c.does(c.Answer(c.now, node, s.Seq, a))
}

// say answers for several nodes.
func (c *try) say(a Answer, nodes ...int) {
	c.Helper()
	for _, node := range nodes {
		c.answer(node, a)
	}
}

// grant has nodes grant the take, and then take the ticket.
func (c *try) grant(nodes ...int) {
	c.Helper()
	for range 2 {
		c.say(granted(10), nodes...)
	}
}

// rest answers for one node after the other until there is a result.
func (c *try) rest(a Answer) {
	c.Helper()
	for c.last.Verdict == 0 {
		c.answer(c.sent[0].Node, a)
	}
}

// ops are what lies unanswered.
func (c *try) ops() (ops []Op) {
	for _, s := range c.sent {
		ops = append(ops, s.Request.Op)
	}
	return ops
}

func (c *try) want(v Verdict) {
	c.Helper()
	if c.last.Verdict != v {
		c.Fatalf("result %+v, want verdict %d", c.last, v)
	}
	c.last = Result{}
}

// held says that somebody has the lock.
var held = Answer{Code: Denied, Holder: "other", Left: time.Hour}

func granted(mark uint64) Answer { return Answer{Code: Granted, Votes: true, Mark: mark} }
func kept() Answer               { return Answer{Code: Kept, Votes: true} }

// win takes the lock by all nodes.
func (c *try) win() {
	c.Helper()
	c.does(c.Try(c.now, 0, 0))
	for range 2 {
		for i := range c.rules.Nodes {
			c.answer(i, granted(10))
		}
	}
	c.want(Won)
}

func TestWinsByMajority(t *testing.T) {
	c := newTry(t, 5)
	c.does(c.Try(0, 20, 0))
	c.now = 10 * time.Millisecond
	c.answer(0, granted(10))
	c.answer(1, granted(30))
	c.answer(2, granted(20))
	c.now = 20 * time.Millisecond
	for i := range 3 {
		if c.last.Verdict != 0 {
			t.Fatal("a result before a majority has the ticket")
		}
		c.sent = slices.DeleteFunc(c.sent, func(s Send) bool { return s.Node == i && s.Request.Op == Take })
		c.answer(i, granted(0))
	}
	if r := c.last; r.Ticket != 31 || r.Until != testTTL-10*time.Millisecond-tick || c.Counted() != 3 {
		t.Errorf("%+v", r)
	}
	c.want(Won)
	if !c.Holds(testTTL-13*time.Millisecond) || c.Holds(testTTL-12*time.Millisecond) {
		t.Error("it does not hold by the clock")
	}
	c.answer(3, granted(40)) // a straggler
	c.now = time.Second / 10
	if c.does(c.Wake(c.now)); c.counts != 4 {
		t.Errorf("%d count when all had their time", c.counts)
	}
}

// A floor is what the client has seen: the ticket is above it.
func TestFloor(t *testing.T) {
	c := newTry(t, 3)
	c.does(c.Try(0, 99, 0))
	c.grant(0, 1, 2)
	if c.last.Ticket != 100 {
		t.Errorf("ticket %d", c.last.Ticket)
	}
}

// When no majority is in reach any more, everything is released, also where it seems to have failed. Those that have
// not answered yet have a moment to do so, and are then asked like the others.
func TestLosesEarly(t *testing.T) {
	denied := Answer{Code: Denied, Votes: true, Holder: "other", Left: time.Second}
	for name, c := range map[string]struct {
		answers []Answer
		want    Verdict
		leaves  int // at once
	}{
		"denied":          {[]Answer{denied, denied, denied}, Lost, 0},
		"granted too":     {[]Answer{granted(1), denied, denied, denied}, Lost, 1},
		"failed":          {[]Answer{{}, {}, {}}, Faulty, 3},
		"never sent":      {[]Answer{{Unsent: true}, {Unsent: true}, {Unsent: true}}, Faulty, 0},
		"another max-ttl": {[]Answer{{Code: Mismatch}, {Code: Mismatch}, {Code: Mismatch}}, Faulty, 0},
		"a newer record":  {[]Answer{{Code: Newer}, {Code: Newer}, {Code: Newer}}, Faulty, 0},
		"no votes":        {[]Answer{{Code: NoVote}, {Code: NoVote}, {Code: NoVote}}, Faulty, 0},
		"failed and held": {[]Answer{{}, {}, denied}, Lost, 2},
	} {
		t.Run(name, func(t *testing.T) {
			p := trying(t, 5)
			for i, a := range c.answers {
				if p.last.Verdict != 0 {
					t.Fatal("too early", p.last)
				}
				p.answer(i, a)
			}
			p.want(c.want)
			takes := slices.DeleteFunc(slices.Clone(p.sent), func(s Send) bool { return s.Request.Op != Take })
			check := func(when string, want int) {
				t.Helper()
				p.sent = slices.DeleteFunc(p.sent, func(s Send) bool { return s.Request.Op != Leave })
				if len(p.sent) != want || p.State() != Waiting {
					t.Errorf("%s: %d releases, want %d, state %d", when, len(p.sent), want, p.State())
				}
				for _, s := range p.sent {
					slow := s.Node > len(c.answers) // the first of those that have not answered does so
					if s.Request.Bury != (slow || s.Node < len(c.answers) && c.answers[s.Node].Code == Failed) {
						t.Errorf("%s: node %d: tombstone %t", when, s.Node, s.Request.Bury)
					}
				}
				p.sent = nil
			}
			check("at once", c.leaves)
			p.does(p.Answer(p.now, takes[0].Node, takes[0].Seq, granted(1)))
			check("when one has answered", 1)
			p.wake(p.step.Wake)
			check("after a moment", c.leaves+len(takes))
		})
	}
}

func TestTimesOut(t *testing.T) {
	c := trying(t, 3)
	c.answer(0, granted(1))
	if c.step.Wake != 50*time.Millisecond {
		t.Fatal("it wants to be woken at", c.step.Wake)
	}
	c.wake(c.step.Wake)
	c.want(Faulty)
}

// Each try has a value of its own.
func TestValues(t *testing.T) {
	c := newTry(t, 3)
	seen := map[string]bool{}
	for range 3 {
		c.does(c.Try(c.now, 0, 0))
		c.answer(0, Answer{})
		c.answer(1, Answer{})
		c.want(Faulty)
		seen[c.Value()] = true
		c.now = c.step.Again
		c.sent = nil
	}
	if len(seen) != 3 {
		t.Error(seen)
	}
}

func TestKeep(t *testing.T) {
	other, noVote := Answer{Code: Denied, Votes: true}, Answer{Code: Kept}
	for name, k := range map[string]struct {
		answers []Answer
		want    Verdict
	}{
		"all":                {[]Answer{kept(), kept(), kept()}, Won},
		"a majority":         {[]Answer{{}, kept(), kept()}, Won},
		"repaired":           {[]Answer{{}, kept(), {Code: Repaired, Votes: true}}, Won},
		"without a vote":     {[]Answer{noVote, noVote, kept()}, Faulty},
		"repaired, no vote":  {[]Answer{{}, kept(), {Code: Repaired}}, Faulty},
		"failed":             {[]Answer{{}, {}}, Faulty},
		"somebody else's":    {[]Answer{other, other}, Gone},
		"broken":             {[]Answer{{Code: Buried}, {Code: Buried}}, Gone},
		"one somebody's":     {[]Answer{other, kept(), kept()}, Won},
		"one and one failed": {[]Answer{other, {}, {}}, Faulty},
		"one failed, others": {[]Answer{other, {}, other}, Gone},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTry(t, 3)
			c.win()
			old := c.cur.until
			c.now = testTTL / 3
			c.does(c.Keep(c.now))
			for i, a := range k.answers {
				c.answer(i, a)
			}
			until := c.cur.until
			c.want(k.want)
			if k.want == Won && until != old+testTTL/3 || k.want != Won && until != old {
				t.Errorf("until %v, was %v", until, old)
			}
			if (k.want == Gone) != (c.State() == Over) {
				t.Errorf("state %d", c.State())
			}
		})
	}
}

// A claim with a grace that has expired keeps its place for that long, but is not renewed: what its holder set going
// may still run. When the grace is over too it is gone.
func TestGrace(t *testing.T) {
	c := newTry(t, 3)
	c.Claim = NewClaim(c.rules, "lock", "id", testTTL, testTTL/2)
	c.win()
	until := c.cur.until
	c.now = until - 1
	c.does(c.Keep(c.now))
	c.now = until
	c.answer(0, kept())
	c.want(Faulty)
	c.sent = nil
	c.now = until + testTTL/2 - 1
	c.does(c.Keep(c.now))
	c.want(Faulty)
	if len(c.sent) != 0 || c.State() != Held || c.Holds(c.now) {
		t.Errorf("%v is sent, state %d", c.ops(), c.State())
	}
	c.now++
	c.does(c.Keep(c.now))
	c.want(Gone)
	if got := c.ops(); len(got) != 3 || got[0] != Leave {
		t.Errorf("%v is sent", got)
	}
}

// The ticket is not waited for when the claim's time is over.
func TestRaiseEndsInTime(t *testing.T) {
	c := newTry(t, 3, func(r *Rules) { r.NodeTimeout = testTTL })
	c.does(c.Try(0, 0, 0))
	c.now = testTTL / 2
	c.say(granted(10), 0, 1)
	if until := c.cur.until; c.step.Wake != until {
		t.Errorf("it waits until %v, and could hold until %v", c.step.Wake, until)
	}
}

// A claim that has expired is gone, whatever the nodes say.
func TestContinuity(t *testing.T) {
	c := newTry(t, 3)
	c.win()
	c.now = c.cur.until - 1
	c.does(c.Keep(c.now))
	c.now++
	for i := range 2 {
		if c.last.Verdict == 0 {
			c.answer(i, kept())
		}
	}
	c.want(Gone)
	c = newTry(t, 3)
	c.win()
	c.now = c.cur.until
	c.does(c.Keep(c.now))
	c.want(Gone)
	if slices.Contains(c.ops(), Keep) {
		t.Error("nodes were asked to prolong it")
	}
}

// A ticket that a majority accepts along with the take needs no other round. If one of the majority does not, it does.
func TestTicketWithTake(t *testing.T) {
	accepted := func(ticket uint64) Answer { return Answer{Code: Granted, Votes: true, Mark: 10, Ticket: ticket} }
	c := newTry(t, 3)
	c.does(c.Try(0, 0, 50))
	c.answer(2, accepted(50))
	c.answer(0, accepted(50))
	if c.last.Ticket != 50 || len(c.sent) != 1 {
		t.Errorf("ticket %d, and %v is on its way", c.last.Ticket, c.ops())
	}
	c.want(Won)

	c = newTry(t, 3)
	c.does(c.Try(0, 0, 50))
	c.answer(2, accepted(50))
	c.answer(0, Answer{Code: Granted, Votes: true, Mark: 60})
	if c.last.Verdict != 0 || !slices.Contains(c.ops(), Raise) {
		t.Fatalf("%+v, and %v is on its way", c.last, c.ops())
	}
	c.answer(1, accepted(50)) // late: what it accepted is not the ticket any more
	if c.last.Verdict != 0 {
		t.Fatal("a majority accepted nothing")
	}
	if c.answer(0, granted(60)); c.last.Verdict != 0 {
		t.Fatalf("ticket %d, and only one has it: the others accepted the proposal", c.last.Ticket)
	}
	if c.answer(2, granted(60)); c.last.Ticket != 61 {
		t.Errorf("ticket %d", c.last.Ticket)
	}
	c.want(Won)
}

// A proposal that is too high for most does not spoil the ticket that is then drawn: that is above the marks, and no
// higher.
func TestProposalIsTooHigh(t *testing.T) {
	c := newTry(t, 3)
	c.does(c.Try(0, 0, MaxTicket))
	c.answer(0, Answer{Code: Granted, Votes: true, Mark: 10, Ticket: MaxTicket}) // its clock is ahead
	c.answer(1, granted(20))
	if s := c.to(0, Raise); s.Request.Ticket != 21 {
		t.Errorf("%d is proposed then", s.Request.Ticket)
	}
}

// What is proposed is above the floor, and nothing is while marks are mad.
func TestProposal(t *testing.T) {
	c := newTry(t, 3)
	if s := c.Try(0, 80, 50); s.Send[0].Request.Ticket != 81 {
		t.Errorf("%d is proposed above 80", s.Send[0].Request.Ticket)
	}
	c = newTry(t, 3)
	c.ceiling = 1000
	if s := c.Try(0, 80, 50); s.Send[0].Request.Ticket != 0 {
		t.Errorf("%d is proposed", s.Send[0].Request.Ticket)
	}
}

package vote

import (
	"cmp"
	"slices"
	"strconv"
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
	r := &Rules{Nodes: nodes, MaxTTL: testMax, DriftPart: 0.01, Chance: func(d time.Duration) time.Duration { return d / 2 }}
	for _, f := range change {
		f(r)
	}
	return &try{T: t, Claim: NewClaim(r, "lock", "id", testTTL, 0)}
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
	if r := c.last; r.Ticket != 31 || r.Until != testTTL-10*time.Millisecond-tick || r.Counted != 3 {
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
	for range 2 {
		for i := range 3 {
			c.answer(i, granted(10))
		}
	}
	if c.last.Ticket != 100 {
		t.Errorf("ticket %d", c.last.Ticket)
	}
}

// When no majority is in reach any more, everything is given back, also where it seems to have failed. Those that have not
// answered yet have a moment to do so, and are then asked like the others.
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
		"no votes":        {[]Answer{{Code: NoVote}, {Code: NoVote}, {Code: NoVote}}, Faulty, 0},
		"failed and held": {[]Answer{{}, {}, denied}, Lost, 2},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTry(t, 5)
			p.does(p.Try(0, 0, 0))
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
			p.now = p.step.Wake
			p.does(p.Wake(p.now))
			check("after a moment", c.leaves+len(takes))
		})
	}
}

// A take that is refused when the claim has left leaves nothing to give back. One that failed may still come.
func TestAnswerAfterLeave(t *testing.T) {
	c := newTry(t, 3)
	c.does(c.Try(0, 0, 0))
	takes := slices.Clone(c.sent)
	c.sent = nil
	c.does(c.Leave(0))
	if len(c.sent) != 0 {
		t.Fatalf("%v is sent, and no node has answered yet", c.ops())
	}
	c.does(c.Answer(0, 0, takes[0].Seq, Answer{Code: Denied, Holder: "other"}))
	c.does(c.Answer(0, 1, takes[1].Seq, Answer{Code: NoVote}))
	if len(c.sent) != 0 {
		t.Errorf("%v is sent, and there is nothing to give back", c.ops())
	}
	c.want(Free)
	c.does(c.Answer(0, 2, takes[2].Seq, Answer{Code: Failed}))
	if s := c.to(2, Leave); !s.Request.Bury {
		t.Error("there is no tombstone")
	}
}

func TestFinalFault(t *testing.T) {
	for _, code := range []Code{Mismatch, Newer} {
		c := newTry(t, 3)
		c.does(c.Try(0, 0, 0))
		c.answer(0, Answer{Code: code})
		c.answer(1, Answer{Code: code})
		if !c.last.Final || c.Said(1).Code != code {
			t.Errorf("%+v", c.last)
		}
		c.want(Faulty)
	}
}

func TestTimesOut(t *testing.T) {
	c := newTry(t, 3)
	c.does(c.Try(0, 0, 0))
	c.answer(0, granted(1))
	if c.step.Wake != 50*time.Millisecond {
		t.Fatal("it wants to be woken at", c.step.Wake)
	}
	c.now = c.step.Wake
	c.does(c.Wake(c.now))
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

// A claim with a grace that has run out keeps its place for that long, but is not renewed: what its holder set going may still
// run. When the grace is over too it is gone.
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
	for i := range 2 {
		c.answer(i, granted(10))
	}
	if until := c.cur.until; c.step.Wake != until {
		t.Errorf("it waits until %v, and could hold until %v", c.step.Wake, until)
	}
}

// A claim that has run out is gone, whatever the nodes say.
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

func TestLeaveIsRepeated(t *testing.T) {
	c := newTry(t, 3)
	c.win()
	c.does(c.Leave(0))
	c.answer(0, Answer{Code: Left})
	if c.last.Verdict != 0 {
		t.Fatal("free before a majority is")
	}
	c.answer(1, Answer{Code: Left})
	c.want(Free)
	c.sent = nil // the last is lost
	times := 0
	for !c.Finished() {
		c.now = c.step.Wake
		c.does(c.Wake(c.now))
		for _, s := range c.sent {
			if times++; s.Node != 2 || s.Request.Op != Leave || !s.Request.Tell || s.Request.Bury {
				t.Errorf("%+v", s)
			}
		}
		c.sent = nil
	}
	if times < 4 || c.now < testTTL || c.now > testTTL+testTTL/3 {
		t.Errorf("%d times, up to %v", times, c.now)
	}
}

// Nodes that failed to take the key acknowledge its end soon, and that helps nobody: free is what a majority of those has
// given back that had it. One of those that is down is not waited for longer than for any node.
func TestFreeWhereItWasHeld(t *testing.T) {
	c := heldAtThree(t)
	for _, node := range []int{1, 3, 0, 2} {
		c.answer(node, Answer{Code: Left})
		if c.last.Verdict != 0 {
			t.Fatalf("free when node %d has answered", node)
		}
	}
	c.answer(4, Answer{Code: Left})
	c.want(Free)

	c = heldAtThree(t)
	for _, node := range []int{1, 3, 0} {
		c.answer(node, Answer{Code: Left})
	}
	c.now = c.rules.Timeout(testTTL)
	c.does(c.Wake(c.now))
	c.want(Free)

	c = heldAtThree(t)
	for _, node := range []int{1, 3} {
		c.answer(node, Answer{Code: Left})
	}
	c.now = c.rules.Timeout(testTTL)
	c.does(c.Wake(c.now))
	c.want(Faulty)
}

// heldAtThree is a claim that leaves, which was held at three of five nodes.
func heldAtThree(t *testing.T) *try {
	t.Helper()
	c := newTry(t, 5)
	c.does(c.Try(0, 0, 0))
	for _, full := range []int{1, 3} {
		c.answer(full, Answer{Code: Failed})
	}
	for range 2 {
		for _, node := range []int{0, 2, 4} {
			c.answer(node, granted(10))
		}
	}
	c.want(Won)
	c.does(c.Leave(0))
	return c
}

// A take that is answered after its release is released again.
func TestLeaveAgain(t *testing.T) {
	c := newTry(t, 3)
	c.does(c.Try(0, 0, 0))
	slow := c.sent[2]
	c.does(c.Leave(0))
	c.now = c.step.Wake // so that the releases overtake the takes
	c.does(c.Wake(c.now))
	for i := range 3 {
		c.sent = slices.DeleteFunc(c.sent, func(s Send) bool { return s.Request.Op == Take })
		c.answer(i, Answer{Code: Left})
	}
	c.want(Free)
	if c.Finished() {
		t.Fatal("finished, and takes are on their way")
	}
	c.does(c.Answer(c.now, 2, slow.Seq, granted(1)))
	if ops := c.ops(); len(ops) != 1 || ops[0] != Leave {
		t.Errorf("sent %v", ops)
	}
}

func TestLeaveBeforeTry(t *testing.T) {
	c := newTry(t, 3)
	c.does(c.Leave(0))
	c.want(Free)
	if !c.Finished() {
		t.Error("not finished")
	}
}

// A push of the node that is asked first brings the next try forward, and no other does.
func TestPush(t *testing.T) {
	c := newTry(t, 3)
	c.does(c.Try(0, 0, 0))
	for i := range 3 {
		c.answer(i, Answer{Code: Denied, Holder: "other", Left: 10 * time.Second})
	}
	c.want(Lost)
	late := c.step.Again
	if late < 500*time.Millisecond {
		t.Fatal("it tries again at", late)
	}
	for i := range 3 {
		if i != c.pacer.awaited {
			c.does(c.Push(0, i))
		}
	}
	if c.step.Again != late {
		t.Fatal("others than the first have told")
	}
	c.does(c.Push(0, c.pacer.awaited))
	if c.step.Again > 10*time.Millisecond {
		t.Error("it tries again at", c.step.Again)
	}
	if c.does(c.Try(c.step.Again, 0, 0)); c.cur.probed != c.pacer.awaited {
		t.Errorf("it asks node %d first, and has waited for %d", c.cur.probed, c.pacer.awaited)
	}
}

// A push that comes while a try is under way is not lost on it: the node may have denied the key before it told.
func TestPushDuringTry(t *testing.T) {
	for name, c := range map[string]struct {
		awaited bool
		soon    bool
	}{"of the first": {true, true}, "of another": {false, false}} {
		t.Run(name, func(t *testing.T) {
			try := newTry(t, 5) // of which the first is not number 0
			for i := range 3 {  // also when it begins with one node, and not when nobody tells
				try.sent = nil
				try.does(try.Try(try.now, 0, 0))
				node := try.first()
				if !c.awaited {
					node = (node + 1) % 5
				}
				if i < 2 {
					try.does(try.Push(try.now, node))
				}
				if try.step.Again != 0 {
					t.Fatal("it is to try while it does")
				}
				denied := Answer{Code: Denied, Holder: "other", Left: 10 * time.Second}
				try.answer(try.first(), denied)
				for _, s := range slices.Clone(try.sent) {
					try.answer(s.Node, denied)
				}
				try.want(Lost)
				if soon := try.step.Again < try.now+10*time.Millisecond; soon != (c.soon && i < 2) {
					t.Errorf("it tries again after %v", try.step.Again-try.now)
				}
				try.now = try.step.Again
			}
			if try.does(try.Push(try.now-defaultPoll/4, try.first())); try.step.Again == try.now {
				t.Error("a push while it waits is lost on it")
			}
		})
	}
}

// Who gives up tells of it, though somebody held when he lost: others may have been denied by his key since.
func TestGivingUpIsTold(t *testing.T) {
	for name, answered := range map[string]int{"while it tries": 1, "when it has lost": 3} {
		t.Run(name, func(t *testing.T) {
			c := newTry(t, 3)
			c.does(c.Try(0, 0, 0))
			c.answer(0, granted(10))
			for node := 1; node < answered; node++ {
				c.answer(node, Answer{Code: Denied, Holder: "other"})
			}
			for _, s := range slices.Clone(c.sent) {
				if s.Request.Op == Leave {
					if s.Request.Tell {
						t.Error("it is told though somebody holds")
					}
					c.answer(s.Node, Answer{Code: Left})
				}
			}
			c.does(c.Leave(0))
			if s := c.to(0, Leave); !s.Request.Tell {
				t.Error("nobody hears of it")
			}
		})
	}
}

// Who waits for a holder tries again when the key has run out at the node that it asks first.
func TestRunOut(t *testing.T) {
	c := newTry(t, 3)
	c.does(c.Try(0, 0, 0))
	for i := range 3 {
		left := 10 * time.Millisecond
		if i == c.first() {
			left = 30 * time.Millisecond
		}
		if c.last.Verdict == 0 {
			c.answer(i, Answer{Code: Denied, Holder: "other", Left: left})
		}
	}
	if c.step.Again < 30*time.Millisecond || c.step.Again > 40*time.Millisecond {
		t.Error("it tries again at", c.step.Again)
	}
}

// Somebody who was let in by the first node, and kept out by the others, soon tries again: a release has reached that node
// and not yet the others, and is told there no more.
func TestReleaseOnItsWay(t *testing.T) {
	c := lost(t)
	c.answer(c.cur.probed, granted(10))
	for _, s := range slices.Clone(c.sent) {
		if s.Request.Op == Take && c.last.Verdict == 0 {
			c.answer(s.Node, Answer{Code: Denied, Holder: "other", Left: time.Hour})
		}
	}
	c.want(Lost)
	if c.step.Again > c.now+10*time.Millisecond {
		t.Error("it tries again in", c.step.Again-c.now)
	}
}

// Those who have split the votes tell those who wait when they give back: nobody else will. Who gave way to a holder does not.
func TestSplitsAreTold(t *testing.T) {
	for holder, told := range map[string]bool{"": true, "one": false} {
		c := newTry(t, 5)
		c.does(c.Try(0, 0, 0))
		c.answer(0, granted(10))
		for i := 1; c.last.Verdict == 0; i++ {
			c.answer(i, Answer{Code: Denied, Holder: cmp.Or(holder, strconv.Itoa(i)), Left: time.Hour})
		}
		c.want(Lost)
		for _, s := range c.sent {
			if s.Request.Op == Leave && s.Request.Tell != told {
				t.Errorf("holder %q: told %t", holder, s.Request.Tell)
			}
		}
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

// A proposal that is too high for most does not spoil the ticket that is then drawn: that is above the marks, and no higher.
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

// The more often votes are split, the longer the pauses.
func TestSplits(t *testing.T) {
	c := newTry(t, 3)
	var pauses []time.Duration
	for i := range 4 {
		c.does(c.Try(c.now, 0, 0))
		c.sent = slices.DeleteFunc(c.sent, func(s Send) bool { return s.Request.Op != Take }) // releases of the try before
		if i > 0 {
			c.answer(c.cur.probed, granted(1))
		}
		for _, s := range slices.Clone(c.sent) {
			if s.Request.Op == Take && c.last.Verdict == 0 {
				c.answer(s.Node, Answer{Code: Denied, Holder: strconv.Itoa(s.Node)})
			}
		}
		c.want(Lost)
		pauses = append(pauses, c.step.Again-c.now)
		c.now, c.sent = c.step.Again, nil
	}
	if !slices.IsSorted(pauses) || pauses[0] == pauses[3] {
		t.Error(pauses)
	}
}

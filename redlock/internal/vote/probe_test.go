package vote

import (
	"testing"
	"time"
)

// lost is a claim that has lost its first try to somebody who has all nodes.
func lost(t *testing.T) *try {
	t.Helper()
	c := trying(t, 3)
	c.say(held, 0, 1)
	c.want(Lost)
	c.answer(2, held)
	c.does(c.Push(c.now, c.pacer.awaited))
	c.now = c.step.Again
	c.does(c.Try(c.now, 0, 0))
	if len(c.sent) != 1 {
		t.Fatalf("%d nodes are asked, want one first", len(c.sent))
	}
	return c
}

// Who has lost before asks one node first. If that has granted, the others are asked, and a majority decides as always.
func TestProbeIsGranted(t *testing.T) {
	c := lost(t)
	c.answer(c.cur.probed, granted(10))
	if len(c.sent) != 2 {
		t.Fatalf("%d more are asked, want two", len(c.sent))
	}
	for range 2 {
		c.answer(c.sent[0].Node, granted(10))
	}
	if got := c.ops(); len(got) != 3 || got[0] != Raise {
		t.Errorf("it goes on with %v", got)
	}
}

// If it is taken there, no other node is asked, and nothing is left to release.
func TestProbeIsDenied(t *testing.T) {
	c := lost(t)
	c.answer(c.cur.probed, held)
	c.want(Lost)
	if len(c.sent) != 0 || c.cur.phase != done {
		t.Errorf("%+v is sent", c.sent)
	}
	if c.step.Again < c.now+defaultPoll/2 {
		t.Errorf("it tries again after %v, and nobody has told of a release", c.step.Again-c.now)
	}
}

// A node that does not answer, or has no vote, holds up nobody, and is not the first the next time.
func TestProbeIsUseless(t *testing.T) {
	for name, useless := range map[string]func(*try){
		"it has no vote": func(c *try) { c.answer(c.cur.probed, Answer{Code: NoVote}) },
		"it is down":     func(c *try) { c.answer(c.cur.probed, Answer{}) },
		"it hangs": func(c *try) {
			c.wake(c.step.Wake)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := lost(t)
			first, began := c.cur.probed, c.now
			useless(c)
			if c.now-began > c.rules.Timeout(testTTL)/2 {
				t.Errorf("it was waited for %v", c.now-began)
			}
			for _, other := range c.sent {
				if other.Node != first && c.last.Verdict == 0 {
					c.does(c.Answer(c.now, other.Node, other.Seq, Answer{Code: Denied, Holder: "other"}))
				}
			}
			c.want(Lost)
			c.does(c.Try(c.now+time.Second, 0, 0))
			if c.cur.probed == first {
				t.Error("it is asked first again")
			}
		})
	}
}

// Who tries before it was told to asks all nodes: it may know of a release that the first node has not heard of yet.
func TestNoProbeOutOfTurn(t *testing.T) {
	c := lost(t)
	c.answer(c.cur.probed, held)
	c.want(Lost)
	c.sent = nil
	c.does(c.Try(c.step.Again-1, 0, 0))
	if len(c.sent) != 3 {
		t.Errorf("%d nodes are asked, want all", len(c.sent))
	}
}

// Who is denied by an earlier try of his own, whose release was overtaken, does not wait for another client to tell of
// one.
func TestProbeIsDeniedByItself(t *testing.T) {
	c := trying(t, 3)
	first := c.first()
	for node := range 3 {
		if node == first {
			c.answer(node, granted(10))
		} else {
			c.answer(node, Answer{Code: Denied, Holder: "other"})
		}
	}
	c.want(Lost)
	own := c.Value()
	c.does(c.Push(c.now, first))
	c.again() // the release is on its way
	c.answer(first, Answer{Code: Denied, Holder: own, Left: testTTL})
	c.want(Lost)
	if c.step.Again > c.now+8*defaultRetry {
		t.Errorf("it tries again after %v, and nobody will tell of a release", c.step.Again-c.now)
	}
}

// Who is paused while one node is asked still gives the others their time.
func TestPauseDuringProbe(t *testing.T) {
	c := lost(t)
	c.wake(c.now + testTTL/2)
	if c.last.Verdict != 0 || len(c.sent) != 3 {
		t.Fatalf("%+v, and %v is on its way", c.last, c.ops())
	}
	if c.step.Wake != c.now+c.rules.Timeout(testTTL) {
		t.Errorf("the others have %v", c.step.Wake-c.now)
	}
}

// A node that was only not among the first to answer is of use all the same, if it was quick enough to be asked alone.
func TestLateNodeIsTriedFirst(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		first bool
	}{"a moment later": {time.Millisecond, true}, "too late": {40 * time.Millisecond, false}} {
		t.Run(name, func(t *testing.T) {
			try := trying(t, 5)
			first := try.first()
			for i := range 3 {
				try.answer((first+1+i)%5, held)
			}
			try.want(Lost)
			try.now = c.after
			try.answer(first, held)
			try.does(try.Try(time.Second, 0, 0))
			if (try.cur.probed == first) != c.first {
				t.Errorf("node %d is asked first, and not %d", try.cur.probed, first)
			}
		})
	}
}

// A node that was of no use is asked first again when it is, and one that was not asked is no worse for that.
func TestUselessNodeIsForgiven(t *testing.T) {
	c := lost(t)
	first := c.cur.probed
	lose := func(node int, a Answer) { // what the others say is that somebody has it
		c.Helper()
		c.answer(node, a)
		c.rest(held)
		c.want(Lost)
		c.does(c.Push(c.now, c.pacer.awaited))
		c.now, c.sent = c.now+time.Second, nil
		c.does(c.Try(c.now, 0, 0))
	}
	lose(first, Answer{Code: NoVote})
	second := c.cur.probed
	if second == first {
		t.Fatal("it is asked first again, and has no vote")
	}
	lose(second, held) // no other node was asked
	if c.cur.probed != second {
		t.Fatalf("node %d is asked first, and not %d", c.cur.probed, second)
	}
	c.answer(second, Answer{}) // it is down: now the others are asked too
	c.answer(first, held)
	c.rest(held)
	c.does(c.Try(c.now+time.Second, 0, 0))
	if c.cur.probed != first {
		t.Errorf("node %d is asked first, and not %d", c.cur.probed, first)
	}
}

// Who was not told by the first node goes on when that denies the key: a release may have reached the others alone.
// That it only now hears of releases tells nothing.
func TestProbeWithoutPush(t *testing.T) {
	c := trying(t, 3)
	c.say(held, 0, 1)
	c.want(Lost)
	c.does(c.Listen(c.now))
	if c.step.Again > 10*time.Millisecond {
		t.Errorf("it looks again after %v, and may have missed a release", c.step.Again)
	}
	c.again()
	probed := c.sent[0].Node
	c.answer(probed, held)
	if c.last.Verdict != 0 || len(c.sent) != 2 {
		t.Fatalf("%+v, and %v is on its way", c.last, c.ops())
	}
	c.rest(granted(10))
	c.want(Won)
}

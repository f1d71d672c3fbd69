package vote

import (
	"cmp"
	"slices"
	"strconv"
	"testing"
	"time"
)

// A push of the node that is asked first brings the next try forward, and no other does.
func TestPush(t *testing.T) {
	c := trying(t, 3)
	c.say(Answer{Code: Denied, Holder: "other", Left: 10 * time.Second}, 0, 1, 2)
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

// A push that comes while a try is in progress is not lost on it: the node may have denied the key before it told.
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

// Who waits for a holder tries again when the key has expired at the node that it asks first.
func TestExpired(t *testing.T) {
	c := trying(t, 3)
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

// Somebody who was let in by the first node, and kept out by the others, soon tries again: a release has reached that
// node and not yet the others, and is told there no more.
func TestReleaseOnItsWay(t *testing.T) {
	c := lost(t)
	c.answer(c.cur.probed, granted(10))
	c.rest(held)
	c.want(Lost)
	if c.step.Again > c.now+10*time.Millisecond {
		t.Error("it tries again in", c.step.Again-c.now)
	}
}

// Who found too many nodes failing does not try sooner for a release: it would not get in. If all who wait told each
// other of what they release, each try would bring the next ones forward, at nodes that have enough to do.
func TestPushAfterFailure(t *testing.T) {
	for during := range 2 { // the try, or after it
		c := newTry(t, 5)
		for range mostSplits {
			c.sent = nil // what the try before has sent is of no interest, nor its releases
			c.does(c.Try(c.now, 0, 0))
			c.sent = slices.DeleteFunc(c.sent, func(s Send) bool { return s.Request.Op != Take })
			if c.cur.probing {
				c.answer(c.cur.probed, granted(10))
			}
			if during == 0 {
				c.does(c.Push(c.now, c.first()))
			}
			c.rest(Answer{Code: Failed})
			c.want(Faulty)
			late := c.pacer.again
			for node := range 5 {
				c.does(c.Push(c.now, node))
			}
			if c.step.Again != late || late < c.now+defaultRetry/2 {
				t.Fatalf("it tries again after %v, and after a push after %v", late-c.now, c.step.Again-c.now)
			}
			c.now = late
		}
		if c.pacer.splits != mostSplits {
			t.Errorf("the pauses do not become longer: %v", c.pacer.window())
		}
	}
}

// Those who have split the votes tell those who wait when they release: no other client will. Who gave way to a holder
// does not.
func TestSplitsArePublished(t *testing.T) {
	for holder, told := range map[string]bool{"": true, "one": false} {
		c := trying(t, 5)
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

// The more often votes are split, the longer the pauses.
func TestSplits(t *testing.T) {
	c := newTry(t, 3)
	var pauses []time.Duration
	for i := range 4 {
		c.does(c.Try(c.now, 0, 0))
		// Releases of the try before.
		c.sent = slices.DeleteFunc(c.sent, func(s Send) bool { return s.Request.Op != Take })
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

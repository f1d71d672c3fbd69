package vote

import (
	"slices"
	"testing"
)

// A take that is refused when the claim has left leaves nothing to release. One that failed may still come.
func TestAnswerAfterLeave(t *testing.T) {
	c := trying(t, 3)
	takes := slices.Clone(c.sent)
	c.sent = nil
	c.does(c.Leave(0))
	if len(c.sent) != 0 {
		t.Fatalf("%v is sent, and no node has answered yet", c.ops())
	}
	c.does(c.Answer(0, 0, takes[0].Seq, Answer{Code: Denied, Holder: "other"}))
	c.does(c.Answer(0, 1, takes[1].Seq, Answer{Code: NoVote}))
	if len(c.sent) != 0 {
		t.Errorf("%v is sent, and there is nothing to release", c.ops())
	}
	c.want(Free)
	c.does(c.Answer(0, 2, takes[2].Seq, Answer{Code: Failed}))
	if s := c.to(2, Leave); !s.Request.Bury {
		t.Error("there is no tombstone")
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
		c.wake(c.step.Wake)
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

// Nodes that failed to take the key acknowledge its end soon, and that helps nobody: free is what a majority of those
// has released that had it. One of those that is down is not waited for longer than for any node.
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
	c.say(Answer{Code: Left}, 1, 3, 0)
	c.wake(c.rules.Timeout(testTTL))
	c.want(Free)

	c = heldAtThree(t)
	c.say(Answer{Code: Left}, 1, 3)
	c.wake(c.rules.Timeout(testTTL))
	c.want(Faulty)
}

// A node that has denied the key works and has a vote: others can have it there. One of three that had the key and
// hangs is not waited for then for all its time. What denied it was mostly an earlier lock of the same client, whose
// release was overtaken. It may be another client's too, so that those that had the key are given a moment.
func TestFreeWhereItWasDenied(t *testing.T) {
	c := takenAtThree(t)
	c.does(c.Leave(0))
	for node, votes := range map[int]bool{1: true, 3: false} {
		c.answer(node, Answer{Code: Denied, Holder: "earlier", Votes: votes})
	}
	for _, node := range []int{3, 1, 0, 2} {
		c.answer(node, Answer{Code: Left, Votes: true})
		if c.last.Verdict == Free {
			t.Fatalf("free when node %d has answered", node)
		}
	}
	c.now = c.rules.Timeout(testTTL) / 4
	if c.step.Wake > c.now {
		t.Fatal("it is woken only at", c.step.Wake)
	}
	c.does(c.Wake(c.now))
	c.want(Free)
}

// One that denied the key and has lost its vote since is of no use to anybody.
func TestNotFreeWithoutVotes(t *testing.T) {
	c := takenAtThree(t)
	c.say(Answer{Code: Denied, Holder: "other", Votes: true}, 1, 3)
	c.does(c.Leave(0))
	c.say(Answer{Code: Left}, 1, 3, 0)
	c.now = c.rules.Timeout(testTTL) / 2
	if c.does(c.Wake(c.now)); c.last.Verdict == Free {
		t.Error("free, and of those with a vote one has given it back")
	}
}

// takenAtThree is a claim that holds at three of five nodes. Nodes 1 and 3 have yet to answer.
func takenAtThree(t *testing.T) *try {
	t.Helper()
	c := trying(t, 5)
	c.grant(0, 2, 4)
	c.want(Won)
	return c
}

// heldAtThree is a claim that leaves, which was held at three of five nodes.
func heldAtThree(t *testing.T) *try {
	t.Helper()
	c := trying(t, 5)
	c.say(Answer{Code: Failed}, 1, 3)
	c.grant(0, 2, 4)
	c.want(Won)
	c.does(c.Leave(0))
	return c
}

// A take that is answered after its release is released again.
func TestLeaveAgain(t *testing.T) {
	c := trying(t, 3)
	slow := c.sent[2]
	c.does(c.Leave(0))
	c.wake(c.step.Wake) // so that the releases overtake the takes
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

// Who gives up tells of it, though somebody held when he lost: others may have been denied by his key since.
func TestGivingUpIsPublished(t *testing.T) {
	for name, answered := range map[string]int{"while it tries": 1, "when it has lost": 3} {
		t.Run(name, func(t *testing.T) {
			c := trying(t, 3)
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

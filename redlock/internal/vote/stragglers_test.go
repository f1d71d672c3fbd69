package vote

import (
	"slices"
	"testing"
	"time"
)

// to finds what was sent to a node with an op, and takes it out.
func (c *try) to(node int, op Op) Send {
	c.Helper()
	i := slices.IndexFunc(c.sent, func(s Send) bool { return s.Node == node && s.Request.Op == op })
	if i < 0 {
		c.Fatalf("no request %d to node %d", op, node)
	}
	s := c.sent[i]
	c.sent = slices.Delete(c.sent, i, i+1)
	return s
}

// A take that is answered during a keep says nothing of the keep: its key may have expired long before the new Until.
func TestLateTakeIsNoKeep(t *testing.T) {
	c := trying(t, 3)
	late := c.to(2, Take)
	c.grant(0, 1)
	c.want(Won)
	c.now = testTTL / 3
	c.does(c.Keep(c.now))
	c.answer(0, kept())
	c.does(c.Answer(c.now, 2, late.Seq, granted(10)))
	if c.last.Verdict != 0 || c.Counted() != 1 {
		t.Errorf("%+v, counted %d", c.last, c.Counted())
	}
}

// An answer to an earlier keep does not count for a later one, whose Until is further away.
func TestEarlierKeepDoesNotCount(t *testing.T) {
	c := newTry(t, 3)
	c.win()
	c.now = testTTL / 4
	c.does(c.Keep(c.now))
	slow := []Send{c.to(0, Keep), c.to(1, Keep), c.to(2, Keep)}
	c.now = testTTL / 3
	c.does(c.Wake(c.now))
	c.want(Faulty)
	c.now = testTTL / 2
	c.does(c.Keep(c.now))
	for i, s := range slow {
		c.does(c.Answer(c.now, i, s.Seq, kept()))
	}
	if c.last.Verdict != 0 || c.Counted() != 0 {
		t.Errorf("%+v, counted %d", c.last, c.Counted())
	}
	// And a node with two keeps unanswered is left with a tombstone, though the later was answered.
	c = newTry(t, 3)
	c.win()
	c.does(c.Keep(1))
	c.to(0, Keep)
	c.does(c.Keep(2))
	for i := range 3 {
		c.does(c.Answer(2, i, c.to(i, Keep).Seq, kept()))
	}
	c.sent = nil
	c.does(c.Leave(3))
	if !c.to(0, Leave).Request.Bury {
		t.Error("the first keep may still set the key again")
	}
}

// A key that was set after all is released for a whole life from then on.
func TestLateSetIsReleasedForALife(t *testing.T) {
	c := trying(t, 3)
	slow := c.to(2, Take)
	c.does(c.Leave(0))
	c.does(c.Wake(c.step.Wake)) // none has answered
	for i := range 3 {
		c.does(c.Answer(0, i, c.to(i, Leave).Seq, Answer{Code: Left}))
	}
	c.now = 2*testTTL - time.Millisecond
	c.does(c.Answer(c.now, 2, slow.Seq, granted(1)))
	set := c.now
	times := 0
	for c.step.Wake != 0 && c.now < 10*testTTL {
		c.now = c.step.Wake
		c.sent = nil
		c.does(c.Wake(c.now))
		times += len(c.sent)
	}
	if !c.Finished() || times < 3 || c.now < set+testTTL || c.now > set+2*testTTL {
		t.Errorf("finished %t, %d releases, up to %v after it was set", c.Finished(), times, c.now-set)
	}
}

// The mark of a node that is admitted never falls.
func TestAdmitDoesNotLowerTheMark(t *testing.T) {
	b := newBench(t)
	b.run = "two"
	a := b.want(Request{Op: Take, Value: "a"}, NoVote)
	b.now += testMax
	mark := b.Record.Mark
	b.want(Request{Op: Admit, Episode: a.Episode, Ticket: mark - 1}, Granted)
	if b.Record.Mark != mark {
		t.Errorf("the mark is %d, was %d", b.Record.Mark, mark)
	}
}

// Nodes that say that they have served count together only if they were without a vote at one time.
func TestAdmissionIsSoon(t *testing.T) {
	needs := Answer{Code: NoVote, Episode: Episode{"two", 5}, Mark: 50}
	m := NewAdmitter(&Rules{Nodes: 3, MaxTTL: testMax})
	s := m.Notice(0, 0, &needs)
	late := m.patience()
	s = m.Answer(late, 1, s.Send[0].Seq, needs)
	for _, one := range s.Send {
		if one.Request.Op == Admit {
			t.Errorf("admitted: %+v", one)
		}
	}
}

// While a claim waits forever at nodes that do not answer, what it remembers stays bounded.
func TestOldTriesAreForgotten(t *testing.T) {
	c := newTry(t, 3)
	most := 0
	for c.now < 60*testTTL {
		if c.State() == Fresh || c.State() == Waiting && c.now >= c.step.Again {
			c.does(c.Try(c.now, 0, 0))
		}
		next := c.step.Wake
		if c.State() == Waiting {
			next = Earlier(next, c.step.Again)
		}
		c.now = max(c.now+1, next)
		c.sent = nil
		c.does(c.Wake(c.now))
		most = max(most, len(c.old))
	}
	if most > 100 {
		t.Errorf("%d old tries at once", most)
	}
	c.does(c.Leave(c.now))
	for !c.Finished() {
		if c.step.Wake == 0 || c.now > 70*testTTL {
			t.Fatal("it never finishes")
		}
		c.wake(c.step.Wake)
	}
}

// One node whose mark is mad does not keep anybody from drawing a ticket.
func TestOneMarkTooHigh(t *testing.T) {
	c := trying(t, 3)
	c.answer(0, granted(MaxTicket))
	c.answer(1, granted(10))
	c.to(2, Take)
	c.answer(0, granted(MaxTicket)) // the raise
	c.answer(1, Answer{Code: TooHigh, Votes: true, Mark: 10})
	c.wake(c.rules.Timeout(testTTL) * 2)
	c.want(Lost)
	c.again()
	c.answer(0, granted(MaxTicket))
	c.answer(1, granted(10))
	if slices.Contains(c.ops(), Raise) {
		t.Fatal("the node with the mad mark counts")
	}
	c.answer(2, granted(12))
	for i := range 3 {
		if i > 0 {
			c.does(c.Answer(c.now, i, c.to(i, Raise).Seq, granted(0)))
		}
	}
	if c.last.Ticket != 13 {
		t.Errorf("%+v", c.last)
	}
	c.want(Won)
}

// But if a majority is so, nothing helps.
func TestManyMarksTooHigh(t *testing.T) {
	c := newTry(t, 3)
	for i := range 4 {
		c.does(c.Try(c.now, 0, 0))
		c.answer(0, granted(MaxTicket))
		c.answer(1, granted(MaxTicket))
		if i%2 == 0 {
			c.to(2, Take)
			c.answer(0, Answer{Code: TooHigh, Votes: true})
			c.answer(1, Answer{Code: TooHigh, Votes: true})
			c.wake(c.now + c.rules.Timeout(testTTL))
		}
		c.want(map[bool]Verdict{true: Lost, false: Faulty}[i%2 == 0])
		c.now, c.sent = c.step.Again, nil
	}
}

// A try that was lost is still released when the next is in progress.
func TestEarlierTryIsReleased(t *testing.T) {
	c := trying(t, 3)
	first := c.Value()
	c.answer(0, granted(1))
	c.answer(1, Answer{Code: Denied, Votes: true, Holder: "other"})
	c.answer(2, Answer{Code: Denied, Votes: true, Holder: "another"})
	c.want(Lost)
	c.again() // the release is lost
	c.sent = nil
	for len(c.sent) == 0 && c.now < testTTL/2 {
		c.wake(c.step.Wake)
		c.sent = slices.DeleteFunc(c.sent, func(s Send) bool { return s.Request.Value != first })
	}
	if len(c.sent) == 0 || c.to(0, Leave).Request.Value != first {
		t.Error("the first try is not released again")
	}
}

// A claim that was kept may have its key also where its take was denied: a keep sets what is missing.
func TestRepairedKeyIsReleased(t *testing.T) {
	c := trying(t, 3)
	c.answer(2, Answer{Code: Denied, Votes: true, Holder: "other"})
	c.grant(0, 1)
	c.want(Won)
	c.does(c.Keep(1))
	c.answer(0, kept())
	c.answer(1, kept())
	c.answer(2, Answer{Code: Repaired, Votes: true})
	c.does(c.Leave(2))
	c.to(2, Leave)
}

// A take that is never answered is remembered for two lives: it may arrive when its tombstone is gone.
func TestForgetsAfterTwoLives(t *testing.T) {
	c := trying(t, 3)
	c.does(c.Leave(0))
	for !c.Finished() {
		c.wake(c.step.Wake)
	}
	if c.now != 2*testTTL {
		t.Errorf("forgotten after %v", c.now)
	}
}

// An acknowledgement that comes late is of the release that it answers: if the key was set after that, it says nothing.
func TestLateAcknowledgement(t *testing.T) {
	c := trying(t, 3)
	slow := c.to(2, Take)
	c.does(c.Leave(0))
	c.wake(c.step.Wake) // none has answered
	first := c.to(2, Leave)
	c.does(c.Answer(c.now, 2, slow.Seq, granted(1)))
	c.to(2, Leave) // which is lost
	c.does(c.Answer(c.now, 2, first.Seq, Answer{Code: Left}))
	c.sent = nil
	c.wake(c.now + testTTL/8)
	again := c.to(2, Leave)
	c.does(c.Answer(c.now, 2, again.Seq, Answer{Code: Left}))
	c.now, c.sent = c.now+testTTL/2, nil
	c.does(c.Wake(c.now))
	if slices.ContainsFunc(c.sent, func(s Send) bool { return s.Node == 2 }) {
		t.Error("it is asked again, and has acknowledged")
	}
}

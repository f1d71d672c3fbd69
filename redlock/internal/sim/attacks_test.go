package sim

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// The known attacks on Redlock, each as a schedule by hand. Where a rule prevents it, it is played with the rule and
// without.

const ttl = maxTTL

// newPair is a stage of three nodes, with two players.
func newPair(t *testing.T, off vote.Without) (s *stage, a, b *player) {
	s = newStage(t, 3, off)
	a, b = s.player("A", ttl), s.player("B", ttl)
	return s, a, b
}

// withAndWithout plays a schedule with all rules, and without one of them. It gets whether the fault is to be seen.
func withAndWithout(t *testing.T, off vote.Without, play func(s *stage, a, b *player, broken bool)) {
	for name, off := range map[string]vote.Without{"with the rule": 0, "without it": off} {
		t.Run(name, func(t *testing.T) {
			s, a, b := newPair(t, off)
			play(s, a, b, off != 0)
		})
	}
}

// No rule helps when a node's clock jumps ahead: its keys expire too early. Two hold, and only the fence tells them
// apart. This is outside of what is assumed.
func TestClockJumps(t *testing.T) {
	s, a, b := newPair(t, 0)
	a.acquire(2)
	s.nodes[1].offset += 2 * ttl
	b.acquire()
	s.must(a.holds() && b.holds(), "both hold")
	s.must(b.ticket > a.ticket, "B, who came later, has the higher ticket")
	refusesLateWrite(t, a, b)
}

// refusesLateWrite lets A write after B.
func refusesLateWrite(t *testing.T, a, b *player) {
	t.Helper()
	var gate fence.Gate
	for _, p := range []*player{a, b} {
		if err := gate.Enter(holdfast.Token(p.ticket << 8)); err != nil {
			t.Fatal(err)
		}
	}
	err := gate.Do(holdfast.Token(a.ticket<<8), func() error { t.Error("the late write got through"); return nil })
	if !errors.Is(err, holdfast.ErrStale) {
		t.Error("the late write got:", err)
	}
}

func TestRestartWithoutItsKey(t *testing.T) {
	withAndWithout(t, vote.Quarantine, func(s *stage, a, b *player, broken bool) {
		a.acquire(2)
		s.forget(1)
		b.acquire()
		s.must(a.holds(), "A holds")
		s.must(b.holds() == broken, "B holds too if and only if node 1 voted")
	})
}

// A process that is paused between the reply and its use sees by its clock that it is over.
func TestPauseBetweenReplyAndUse(t *testing.T) {
	s, a, b := newPair(t, 0)
	a.try()
	a.arrive()
	s.pass(ttl + 10*time.Millisecond) // the answers lie in the buffers of the process
	b.acquire()
	s.must(b.holds(), "B holds")
	a.talk()
	s.must(!a.holds() && a.last.Verdict == vote.Faulty, "A was too late")
}

// A holder that is paused after it has looked at the clock writes late. Nothing but the fence can refuse that.
func TestLateWriteAfterExpiry(t *testing.T) {
	s, a, b := newPair(t, 0)
	a.acquire()
	s.must(a.holds(), "A holds, looks at the clock, and is paused")
	s.pass(ttl + 10*time.Millisecond)
	b.acquire()
	s.must(b.holds() && !a.holds(), "B holds")
	refusesLateWrite(t, a, b)
}

func TestMajorityLostDuringHold(t *testing.T) {
	s, a, b := newPair(t, 0)
	a.acquire()
	until := a.last.Until
	s.forget(0)
	s.forget(1)
	s.pass(ttl / 3)
	a.keep()
	a.talk()
	s.must(a.last.Verdict == vote.Faulty, "A is not renewed")
	s.must(a.holds(), "it holds on by what a majority has said before")
	b.acquire()
	s.must(b.last.Verdict == vote.Faulty, "B gets nothing, though two nodes know of nobody")
	s.now = until
	s.must(!a.holds(), "A's time is over")
	a.keep()
	s.must(a.last.Verdict == vote.Gone, "and it does not come back")
}

func TestMinoritySlow(t *testing.T) {
	s := newStage(t, 3, 0)
	a := s.player("A", ttl)
	a.try()
	a.talk(0, 1)
	s.must(a.holds() && a.claim.Counted() == 2, "A holds by two, and has not waited for the third")
	a.talk(2)
	s.must(a.claim.Counted() == 3, "the third is counted in when it answers")
	a.release()
	s.must(a.claim.Finished(), "nothing is left to do")
}

func TestReleaseLost(t *testing.T) {
	withAndWithout(t, vote.RepeatLeave, func(s *stage, a, b *player, broken bool) {
		a.acquire()
		a.leave()
		a.lose()
		s.pass(100 * time.Millisecond)
		a.wake()
		a.talk()
		b.acquire()
		s.must(b.holds() != broken, "B holds if and only if the release was repeated")
	})
}

func TestReleaseOvertakesSlowTake(t *testing.T) {
	withAndWithout(t, vote.Tombstones, func(s *stage, a, b *player, broken bool) {
		a.try()
		slow := s.take(a, []int{0, 1})
		s.pass(60 * time.Millisecond)
		a.wake()
		s.must(a.last.Verdict == vote.Faulty, "A gave up")
		a.talk()
		s.mail = slow // now the takes arrive, and their answers get lost
		a.arrive()
		a.lose()
		b.acquire()
		s.must(b.holds() != broken, "B holds if and only if A's keys were not set")
	})
}

// B has node 2's vote, and node 2 forgets it. A, whose key was missing there, sets it again. If A counts that, its key
// at node 1 may expire, and B gets node 1 to the vote of node 2 that it still counts.
func TestRepairCountedTooEarly(t *testing.T) {
	withAndWithout(t, vote.VotesOnKeep, func(s *stage, _, b *player, broken bool) {
		s.rules.Unsaved = true                       // a raise would find that node 2 has forgotten
		s.rules.NodeTimeout = 900 * time.Millisecond // and B must have the time
		a := s.player("A", ttl/4)
		a.acquire(2)
		s.must(a.holds(), "A holds by nodes 0 and 1")
		s.pass(ttl / 8)
		b.try()
		b.talk(0, 2)
		s.forget(2)
		s.pass(ttl / 16)
		a.keep()
		a.lose(1)
		a.talk()
		s.pass(ttl / 12)
		b.talk(1)
		s.must(b.holds(), "B holds by nodes 1 and 2")
		s.must(a.holds() == broken, "A holds if and only if its repair counted")
	})
}

// A's ticket is known to nobody when B takes the lock.
func TestTokenBeforeWriteBack(t *testing.T) {
	withAndWithout(t, vote.WriteBack, func(s *stage, a, b *player, broken bool) {
		a.try()
		a.arrive() // the takes
		for _, m := range s.take(a, nil) {
			a.step(a.claim.Answer(s.now, m.Node, m.Seq, *m.answer))
		}
		a.lose() // the raises
		s.must(a.holds() == broken, "A holds without a majority that has its ticket")
		a.release()
		b.acquire()
		s.must(b.holds(), "B holds")
		s.must((b.ticket <= a.ticket) == broken, "tickets rise if and only if they are written back")
	})
}

// A's proposal is accepted by node 0 alone. The ticket that it then draws is a higher one, and that node 0 has accepted
// another is no reason to believe that it has this one.
func TestProposalOfAMinority(t *testing.T) {
	s, a, b := newPair(t, 0)
	mark := s.nodes[0].node.Record.Mark
	s.nodes[1].node.Record.Mark = mark + 100 // of a lock with another name
	a.propose(mark + 50)
	a.lose(2)
	a.arrive()
	for _, m := range s.take(a, nil) {
		a.step(a.claim.Answer(s.now, m.Node, m.Seq, *m.answer))
	}
	a.lose(0) // the raise
	a.talk(1)
	s.must(!a.holds(), "A does not hold: its ticket is at node 1 alone")
	a.release()
	b.acquire(1)
	s.must(b.holds() && b.ticket < mark+101, "or B, who has met nodes 0 and 2, would have a lower one")
}

// A's proposal is accepted by node 0, whose clock is far ahead, and is too high for the others. A draws a lower one.
// Node 0, which keeps the higher mark, is then in nobody's way.
func TestDrawsBelowItsProposal(t *testing.T) {
	s, a, b := newPair(t, 0)
	mark := s.nodes[1].node.Record.Mark
	s.nodes[0].offset += 48 * time.Hour
	a.propose(mark + uint64((30 * time.Hour).Microseconds())) //nolint:gosec // a ticket
	late := s.take(a, []int{2})
	a.talk()
	s.must(a.holds() && a.ticket == mark+1, "A holds with a ticket that all can believe")
	s.mail = late
	a.talk()
	a.release()
	for range 2 {
		b.acquire()
		s.pass(time.Second)
	}
	s.must(b.last.Verdict == vote.Won && b.ticket == mark+2, "B has the next at its second try, by nodes 1 and 2")
}

// Three clients, each nearest to another node, try at the same time.
func TestVotesSplitForEver(t *testing.T) {
	withAndWithout(t, vote.Jitter, func(s *stage, a, b *player, broken bool) {
		random := rand.New(rand.NewPCG(8, 8)) //nolint:gosec // the same each time
		s.rules.Chance = func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
		players := []*player{a, b, s.player("C", ttl)}
		won := false
		for range 100 {
			next := time.Hour
			for _, p := range players {
				next = min(next, p.last.Again)
			}
			s.now = max(s.now, next)
			var due []*player
			for _, p := range players {
				if p.last.Again <= s.now {
					due = append(due, p)
					p.try()
				}
			}
			for i, p := range players {
				p.arrive(i)
			}
			for _, p := range due {
				p.arrive()
			}
			for _, p := range due {
				p.talk()
				won = won || p.holds()
			}
			s.pass(time.Millisecond)
		}
		s.must(won != broken, "somebody wins if and only if pauses differ")
	})
}

// To mark a node as fresh that has lost its data takes the guard away. An operator must not do it to one node of a
// deployment that is in use: this is outside of what is assumed.
func TestInitOfANodeInUse(t *testing.T) {
	for name, marked := range map[string]bool{"marked": true, "in quarantine": false} {
		t.Run(name, func(t *testing.T) {
			s, a, b := newPair(t, 0)
			a.acquire(2)
			s.forget(1)
			if n := s.nodes[1]; marked {
				n.node.Do(n.clock(s.now), n.run, &vote.Request{Op: vote.Init, MaxTTL: maxTTL})
			}
			b.acquire()
			s.must(a.holds(), "A holds")
			s.must(b.holds() == marked, "B holds too if and only if node 1 was marked")
		})
	}
}

// A lock that an operator breaks is gone at the next keep. Until then its holder does not know.
func TestBreak(t *testing.T) {
	s, a, b := newPair(t, 0)
	a.acquire()
	for _, n := range s.nodes {
		n.node.Do(n.clock(s.now), n.run,
			&vote.Request{Op: vote.Break, MaxTTL: maxTTL, Key: lockKey, Ticket: a.ticket, TTL: maxTTL})
	}
	b.acquire()
	s.must(a.holds() && b.holds() && b.ticket > a.ticket, "both hold, and the fence tells them apart")
	b.release()
	a.keep()
	a.talk()
	s.must(a.last.Verdict == vote.Gone && !a.holds(), "A is not kept, though the lock is free")
}

// A node gets its vote back from a majority that votes. Where one is down for good and another has lost its data there
// is none, and what the third knows is not enough: all wait until the first is back, or was replaced, and has served
// its time too.
func TestOneDownAndOneForgets(t *testing.T) {
	s := newStage(t, 3, 0)
	m := vote.NewAdmitter(&s.rules)
	ask := func(n *server, r vote.Request) vote.Answer {
		r.MaxTTL = maxTTL
		a, _ := n.node.Do(n.clock(s.now), n.run, &r)
		return a
	}
	carry := func(step vote.Step) { // to those that are up
		for len(step.Send) > 0 {
			sends := step.Send
			step = vote.Step{}
			for _, one := range sends {
				if n := s.nodes[one.Node]; n.up {
					next := m.Answer(s.now, one.Node, one.Seq, ask(n, one.Request))
					step.Send = append(step.Send, next.Send...)
				}
			}
		}
	}
	admit := func() bool {
		a := ask(s.nodes[1], vote.Request{Op: vote.Take, Key: lockKey, Value: "x"})
		carry(m.Notice(s.now, 1, &a))
		s.pass(maxTTL)
		carry(m.Wake(s.now))
		return s.nodes[1].votes()
	}
	s.nodes[0].up = false
	s.forget(1)
	for range 3 {
		s.must(!admit(), "node 1 gets no vote from one node")
	}
	s.forget(0) // a new server in its place
	ask(s.nodes[0], vote.Request{Op: vote.Take, Key: lockKey, Value: "y"})
	s.pass(maxTTL)
	s.must(admit(), "node 1 has a vote")
}

package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
	"github.com/holdfast-go/holdfast/store"
)

const silent50 = "no response in 50ms"

// TestFaultNamesWhatWasMissing: an error counts the nodes that did what came to nothing without them, and says of each
// of the others what it said to that.
func TestFaultNamesWhatWasMissing(t *testing.T) {
	t.Parallel()
	dead := "it cannot be reached: " + errPlayed.Error()
	for name, play := range map[string]func(g *stage){
		"take": func(g *stage) {
			p := g.begin(vote.Take)
			g.answer(vote.Take, failing, 0, 1)
			g.answer(vote.Take, noVote, 2) // and that is the end of it
			g.answer(vote.Take, granted, 3)
			g.pass()
			g.fails(p, "0 of 5 nodes succeeded, and 3 are needed", map[int]string{
				0: dead, 1: dead, 3: "it responded too late", 4: silent50,
				2: "it has no vote for another 1s, since it was restarted, is new, or has lost its data",
			})
		},
		"take with mad marks": func(g *stage) {
			p := g.begin(vote.Take)
			mad := granted
			mad.Mark = uint64(time.Now().AddDate(0, 0, 2).UnixMicro())
			g.answer(vote.Take, failing, 0, 1, 2)
			g.answer(vote.Take, mad, 3, 4)
			g.fails(p, "0 of 5 nodes succeeded, and 3 are needed", map[int]string{
				0: dead, 1: dead, 2: dead, 3: errMarkTooHigh.Error(), 4: errMarkTooHigh.Error(),
			})
		},
		"raise": func(g *stage) {
			p := g.begin(vote.Take)
			high := granted
			// No ticket that goes along with a take is above it.
			high.Mark, high.Ticket = uint64(time.Now().UnixMicro()), 1
			g.answer(vote.Take, high, 0, 1, 2)
			g.answer(vote.Raise, granted, 0)
			g.answer(vote.Take, high, 3)
			g.answer(vote.Raise, failing, 1)
			g.answer(vote.Raise, noVote, 3)
			g.pass()
			if p.result.Verdict == 0 {
				g.pass()
			}
			but := "it has granted the lock, but not accepted its token: "
			g.fails(p, "1 of 5 nodes succeeded, and 3 are needed", map[int]string{
				1: but + dead, 2: but + silent50, 4: silent50,
				3: but + "it has no vote for another 1s, since it was restarted, is new, or has lost its data",
			})
		},
		"keep, and answers to the one before": func(g *stage) {
			g.hold(0, 1, 2, 3, 4)
			p := g.begin(vote.Keep)
			g.pass()
			g.fails(p, "0 of 5 nodes succeeded, and 3 are needed", map[int]string{0: silent50, 1: silent50, 2: silent50,
				3: silent50, 4: silent50})
			p = g.begin(vote.Keep)
			g.answer(vote.Keep, renewed, 0, 1, 2, 3) // the first
			g.answer(vote.Keep, renewed, 0)
			g.answer(vote.Keep, denied, 1)
			g.pass()
			g.fails(p, "1 of 5 nodes succeeded, and 3 are needed", map[int]string{
				1: "another client has the lock there", 2: silent50, 3: silent50, 4: silent50,
			})
		},
		"leave": func(g *stage) {
			g.hold(0, 1, 2, 3, 4)
			p := g.begin(vote.Leave)
			g.answer(vote.Leave, left, 1, 2)
			g.answer(vote.Leave, failing, 3)
			g.pass()
			g.fails(p, "2 of 5 nodes succeeded, and 3 are needed", map[int]string{0: silent50, 3: dead, 4: silent50})
		},
		"leave while a node is down that had it": func(g *stage) {
			g.hold(0, 2, 4)
			p := g.begin(vote.Leave)
			g.answer(vote.Leave, left, 0, 1, 2, 3)
			g.pass()
			if p.result.Verdict != vote.Free || p.fault != nil {
				g.Errorf("four nodes are without the lock, and it is not given back: %v", p.fault)
			}
		},
		"leave after a try that was lost": func(g *stage) {
			p := g.begin(vote.Take)
			g.answer(vote.Take, granted, 0, 1)
			g.answer(vote.Take, hanging, 2) // which may have it, or get it yet
			g.answer(vote.Take, denied, 3, 4)
			if p.result.Verdict != vote.Lost {
				g.Fatalf("%+v", p)
			}
			g.answer(vote.Leave, failing, 1) // before the program leaves
			p = g.begin(vote.Leave)
			g.pass()
			g.fails(p, "2 of 5 nodes succeeded, and 3 are needed", map[int]string{0: silent50, 1: dead, 2: dead})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { play(newStage(t, 4*time.Second, 0)) })
		})
	}
}

// TestLateMajority: if a majority has done as it was asked, but too late, nodes were only slow.
func TestLateMajority(t *testing.T) {
	s := newStage(t, time.Second, 0).bid.store
	said := make([]vote.Answer, 5)
	if err := s.noMajority(said, 0b111, 0, time.Second); !store.Busy(err) {
		t.Errorf("three of five did: %v", err)
	}
	if err := s.noMajority(said, 0b11, 0, time.Second); store.Busy(err) { // and no connection to the others
		t.Errorf("two of five did: %v", err)
	}
	said[2], said[3] = denied, denied
	if err := s.noMajority(said, 0b11, 0, time.Second); !store.Busy(err) {
		t.Errorf("two of five did, and two more vote: %v", err)
	}
}

package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// mostIdle is how long a lock may be free that somebody waits for: some lost votes, and not the time after which who
// waits looks by himself.
const mostIdle = 200 * time.Millisecond

// TestNobodySleepsWhileItIsFree plays schedules without faults, but for clients that give up. Whoever waits must be
// told when the lock is free: nobody looks by himself in less than two seconds.
func TestNobodySleepsWhileItIsFree(t *testing.T) {
	for _, c := range []struct{ nodes, clients, giveUp int }{
		{3, 2, 0}, {3, 5, 0}, {5, 2, 0}, {5, 5, 0}, {5, 10, 0}, {3, 5, 100}, {5, 5, 100}, {3, 5, 400},
	} {
		t.Run(
			fmt.Sprintf("%d nodes, %d clients, %d in 1000 give up", c.nodes, c.clients, c.giveUp),
			func(t *testing.T) {
				for seed := range uint64(40) {
					w := contention(seed, c.nodes, c.clients)
					if idle := w.longestIdle(c.giveUp); idle > mostIdle {
						t.Fatalf("seed %d: at %v the lock was free for %v, and somebody waited", seed, w.now, idle)
					}
				}
			},
		)
	}
}

// contention is a world in which all is well, and all clients want one lock.
func contention(seed uint64, nodes, clients int) *world {
	w := &world{
		random:  rand.New(rand.NewPCG(seed, 8)),
		highest: map[string]uint64{},
		end:     time.Hour,
	} //nolint:gosec // a seed is the point
	w.rules = vote.Rules{
		Nodes: nodes, MaxTTL: 10 * time.Second, DriftPart: drift, Poll: 5 * time.Second,
		Chance: func(d time.Duration) time.Duration { return time.Duration(w.random.Int64N(int64(d))) },
	}
	for i := range nodes {
		s := &server{number: i, offset: epoch}
		s.start()
		s.node.Do(s.clock(0), s.run, &vote.Request{Op: vote.Init, MaxTTL: w.rules.MaxTTL})
		w.nodes = append(w.nodes, s)
	}
	for i := range clients {
		c := &client{
			number: i, rules: &w.rules, key: lockKey, alive: true, rounds: 30, ttl: w.rules.MaxTTL, keepAt: 33,
			holdFor: w.between(0, 2*fast), think: w.between(0, 3*fast),
			admitter: vote.NewAdmitter(&w.rules), others: map[*actor]bool{}, cut: make([]time.Duration, nodes),
		}
		w.clients = append(w.clients, c)
		w.wanting++
		w.at(w.between(0, fast), event{do: begin, client: c})
	}
	return w
}

// longestIdle plays the world until the lock was free for too long, or to its end. Of a thousand tries so many are
// given up.
func (w *world) longestIdle(giveUp int) (longest time.Duration) {
	since, tries := time.Duration(-1), map[*actor]int{}
	for w.events.Len() > 0 && w.wanting > 0 && longest <= mostIdle {
		var e event
		w.now, e = w.events.pop()
		if since >= 0 {
			longest = max(longest, w.now-since)
		}
		e.do(w, &e)
		for _, c := range w.clients {
			if a := c.actor; a != nil && tries[a] < a.tries {
				if tries[a] = a.tries; w.chance(giveUp) {
					w.at(w.now+w.between(0, 3*fast), event{do: givesUp, client: c, actor: a})
				}
			}
		}
		if !w.idle() {
			since = -1
		} else if since < 0 {
			since = w.now
		}
	}
	return longest
}

// idle reports whether somebody waits for a lock that he could have.
func (w *world) idle() bool {
	free, waits := 0, false
	for _, s := range w.nodes {
		if _, there := s.node.Keys[lockKey]; !there {
			free++
		}
	}
	for _, c := range w.clients {
		if c.actor != nil {
			if s := c.actor.claim.State(); s == vote.Trying || s == vote.Held {
				return false
			}
			waits = waits || c.actor.claim.State() == vote.Waiting
		}
	}
	return waits && free >= w.rules.Majority()
}

// givesUp is a program whose context ends while it waits for the lock.
func givesUp(w *world, e *event) {
	if a := e.actor; a.actor == a && a.claim.State() != vote.Held {
		w.note("%s gives up", a.label)
		a.life.end(w, a)
		a.step(w, a.claim.Leave(a.local(w)))
		a.over(w)
	}
}

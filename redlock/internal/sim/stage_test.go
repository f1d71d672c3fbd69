package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// A stage plays a schedule that a test has written: each message is delivered when the test says so. All clocks show
// the same time, but for what the test does to them.
type stage struct {
	*testing.T
	rules vote.Rules
	now   time.Duration
	nodes []*server
	mail  []letter
}

// A letter is a request, or with an answer the way back.
type letter struct {
	vote.Send
	from   *player
	answer *vote.Answer
}

// A player is a client with one claim.
type player struct {
	*stage
	name   string
	claim  *vote.Claim
	last   vote.Result
	ticket uint64
}

func newStage(t *testing.T, nodes int, off vote.Without) *stage {
	s := &stage{T: t, rules: vote.Rules{
		Nodes: nodes, MaxTTL: maxTTL, DriftPart: drift, Without: off,
		Chance: func(d time.Duration) time.Duration { return d / 2 },
	}}
	for i := range nodes {
		n := &server{node: vote.Node{Off: off}, number: i, offset: epoch}
		n.start()
		n.node.Do(n.clock(0), n.run, &vote.Request{Op: vote.Init, MaxTTL: maxTTL})
		s.nodes = append(s.nodes, n)
	}
	return s
}

func (s *stage) player(name string, ttl time.Duration) *player {
	return &player{stage: s, name: name, claim: vote.NewClaim(&s.rules, lockKey, name, ttl, 0)}
}

func (p *player) step(s vote.Step) {
	for _, m := range s.Send {
		p.mail = append(p.mail, letter{Send: m, from: p})
	}
	if s.Result.Verdict != 0 {
		p.last = s.Result
		p.Logf("%v: %s: verdict %d, ticket %d, until %v", p.now, p.name, s.Result.Verdict, s.Result.Ticket,
			s.Result.Until)
		if s.Result.Verdict == vote.Won {
			p.ticket = s.Result.Ticket
		}
	}
}

func (p *player) try()        { p.propose(0) }
func (p *player) keep()       { p.step(p.claim.Keep(p.now)) }
func (p *player) leave()      { p.step(p.claim.Leave(p.now)) }
func (p *player) wake()       { p.step(p.claim.Wake(p.now)) }
func (p *player) holds() bool { return p.claim.Holds(p.now) }

// acquire tries, and hears of all nodes but those with whom messages get lost.
func (p *player) acquire(lost ...int) {
	p.try()
	if len(lost) > 0 {
		p.lose(lost...)
	}
	p.talk()
}

// release leaves, and hears of all nodes.
func (p *player) release() {
	p.leave()
	p.talk()
}

// propose tries with a ticket that goes along with the takes.
func (p *player) propose(ticket uint64) { p.step(p.claim.Try(p.now, 0, ticket)) }

// pass lets time go by.
func (s *stage) pass(d time.Duration) { s.now += d }

// take removes the letters of p to or from these nodes; to none means all.
func (s *stage) take(p *player, nodes []int) (taken []letter) {
	s.mail = slices.DeleteFunc(s.mail, func(m letter) bool {
		match := m.from == p && (len(nodes) == 0 || slices.Contains(nodes, m.Node))
		if match {
			taken = append(taken, m)
		}
		return match
	})
	return taken
}

// arrive delivers requests; the answers are on their way then.
func (p *player) arrive(nodes ...int) {
	for _, m := range p.take(p, nodes) {
		n := p.nodes[m.Node]
		if m.answer == nil {
			a, _ := n.node.Do(n.clock(p.now), n.run, &m.Request)
			p.Logf("%v: node %d: %s %s: %s", p.now, m.Node, p.name, describe(&m.Request), tell(&a))
			m.answer = &a
		}
		p.mail = append(p.mail, m)
	}
}

// talk delivers requests and answers, back and forth, until there are none.
func (p *player) talk(nodes ...int) {
	for {
		letters := p.take(p, nodes)
		if len(letters) == 0 {
			return
		}
		for _, m := range letters {
			if m.answer == nil {
				p.mail = append(p.mail, m)
				continue
			}
			p.step(p.claim.Answer(p.now, m.Node, m.Seq, *m.answer))
		}
		p.arrive(nodes...)
	}
}

// lose drops letters.
func (p *player) lose(nodes ...int) { p.take(p, nodes) }

// forget lets a node lose its data, by a restart.
func (s *stage) forget(node int) {
	n := s.nodes[node]
	n.node = vote.Node{Off: s.rules.Without}
	n.start()
	s.Logf("%v: node %d restarts without its data", s.now, node)
}

// must fails the test if something is not as it should be.
func (s *stage) must(ok bool, what string) {
	s.Helper()
	if !ok {
		s.Fatalf("%v: not so: %s", s.now, what)
	}
}

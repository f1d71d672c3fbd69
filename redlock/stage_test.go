package redlock

import (
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediskey"
	"github.com/holdfast-go/holdfast/redlock/internal/vote"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// A stage is a bid whose five nodes the test plays.
type stage struct {
	*testing.T
	bid *localClaim
	out outbox // what was sent, and not answered yet
}

var errPlayed = errors.New("it plays dead")

var (
	granted = vote.Answer{Code: vote.Granted, Votes: true, Mark: 1}
	renewed = vote.Answer{Code: vote.Kept, Votes: true, Mark: 1}
	left    = vote.Answer{Code: vote.Left, Votes: true, Mark: 1}
	denied  = vote.Answer{Code: vote.Denied, Votes: true, Mark: 1, Holder: "somebody", Left: time.Second}
	noVote  = vote.Answer{Code: vote.NoVote, Episode: vote.Episode{Run: "run", Since: 1}, Wait: time.Second}
	hanging = vote.Answer{Code: vote.Failed, Err: errPlayed}
	failing = vote.Answer{Code: vote.Failed, Unsent: true, Err: errPlayed}
)

// newStage makes a bid with this ttl. Each node has so long to answer; 0: as always.
func newStage(t *testing.T, ttl, timeout time.Duration) *stage {
	s := &Store{
		settings: settings{maxTTL: 4 * time.Second, logger: slog.New(slog.DiscardHandler)},
		frame:    frame.New(frame.Config{Name: "redlock", Drift: frame.Clocks}),
		began: time.Now().
			Add(-time.Second),
		claims: map[claimKey]*localClaim{}, subscriptions: rediskey.NewSubscriptions(5, freedTopic),
		rules: vote.Rules{
			Nodes: 5, MaxTTL: 4 * time.Second, NodeTimeout: timeout, DriftPart: frame.Clocks.Part,
			Chance: func(time.Duration) time.Duration { return 0 },
		},
		shut: true, // the test carries the requests
	}
	s.frame.End() // and looks at the time
	for i := range 5 {
		s.nodes = append(s.nodes, &node{index: i, address: "n" + strconv.Itoa(i)})
	}
	b := s.newLocalClaim(&store.Claim{Name: "stage", TTL: ttl, Owner: &store.Owner{}})
	return &stage{t, b, make(outbox, 5)}
}

// begin begins a call: to take or keep what it has, or to leave.
func (g *stage) begin(kind vote.Op) *pendingCall {
	g.Helper()
	var p *pendingCall
	var err error
	if kind == vote.Leave {
		g.bid.mu.Lock()
		defer g.bid.mu.Unlock()
		p, err = g.bid.start(vote.Leave, time.Now(), g.out, g.bid.machine.Leave)
	} else {
		p, err = g.bid.advance(g.Context(), g.out, 0)
	}
	if err != nil || p.kind != kind {
		g.Fatalf("%+v, %v", p, err)
	}
	return p
}

// answer has nodes answer the first request of this kind that they have not answered.
func (g *stage) answer(op vote.Op, a vote.Answer, nodes ...int) {
	g.Helper()
	for _, n := range nodes {
		i := 0
		for ; i < len(g.out[n]) && g.out[n][i].Request.Op != op; i++ {
		}
		if i == len(g.out[n]) {
			g.Fatalf("node %d was not asked for %d", n, op)
		}
		e := g.out[n][i]
		g.out[n] = append(g.out[n][:i:i], g.out[n][i+1:]...)
		if a.Code == vote.Granted && a.Ticket == 0 {
			a.Ticket = e.Request.Ticket
		}
		g.step(func() vote.Step {
			g.bid.recordAnswer(&e, &a)
			return g.bid.machine.Answer(g.bid.store.now(), n, e.Seq, a)
		})
	}
}

// pass lets the time of a request pass.
func (g *stage) pass() {
	time.Sleep(g.bid.store.rules.Timeout(g.bid.ttl))
	g.step(func() vote.Step { return g.bid.machine.Wake(g.bid.store.now()) })
}

func (g *stage) step(step func() vote.Step) {
	g.bid.mu.Lock()
	defer g.bid.mu.Unlock()
	g.bid.follow(step(), g.out)
}

// hold takes the lock, which these nodes grant and the others are too dead for.
func (g *stage) hold(nodes ...int) {
	g.Helper()
	p := g.begin(vote.Take)
	for n := range 5 {
		answer := failing
		for _, granting := range nodes {
			if n == granting {
				answer = granted
			}
		}
		g.answer(vote.Take, answer, n)
	}
	for _, n := range nodes {
		if p.result.Verdict == 0 {
			g.answer(vote.Raise, granted, n)
		}
	}
	if p.result.Verdict != vote.Won {
		g.Fatalf("%+v", p)
	}
}

// fails demands that a call has failed and says this, and of each node that is named what is said of it here.
func (g *stage) fails(p *pendingCall, head string, nodes map[int]string) {
	g.Helper()
	select {
	case <-p.done:
	default:
		g.Fatal("the call is still under way")
	}
	g.says(p.fault, head, nodes)
}

func (g *stage) says(err error, head string, nodes map[int]string) {
	g.Helper()
	if err == nil {
		g.Fatal("it has not failed")
	}
	text := strings.TrimPrefix(err.Error(), "redlock: ")
	if !strings.HasPrefix(text, head+": ") {
		g.Errorf("%q\nwant %q", text, head)
	}
	for n := range 5 {
		_, said, named := strings.Cut(text, "n"+strconv.Itoa(n)+": ")
		said, _, _ = strings.Cut(said, "; n")
		if want, should := nodes[n]; named != should || said != want {
			g.Errorf("%q\nof node %d, want %q", text, n, want)
		}
	}
}

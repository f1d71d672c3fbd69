package broken

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/redlock"
)

// A quorumLock is Redlock: it is held when most of several independent servers have granted it. Its fields say what is
// wrong with it.
type quorumLock struct {
	*part
	value   string
	votes   int              // that are enough
	hasty   bool             // it does not look how long the votes took
	now     func() time.Time // by which it knows when its time is over
	expires time.Time
}

func (l *quorumLock) tryLock(ctx context.Context) (bool, error) {
	began := l.now()
	votes := l.each(ctx, "SET", l.Lock, l.value, "NX", "PX", ms(l.TTL))
	took := l.now().Sub(began)
	if l.hasty {
		took = 0
	}
	l.expires = l.now().Add(l.TTL - took)
	if votes >= l.votes && took < l.TTL {
		return true, nil
	}
	return false, l.unlock(ctx)
}

func (l *quorumLock) unlock(ctx context.Context) error {
	l.each(ctx, "EVAL", deleteIfMine, 1, l.Lock, l.value)
	return nil
}

func (l *quorumLock) believes() bool { return l.now().Before(l.expires) }

// each sends a command to all servers at once, and counts those that say yes.
func (l *quorumLock) each(ctx context.Context, command ...any) int {
	var yes atomic.Int64
	var asking sync.WaitGroup
	for _, addr := range l.Addrs {
		asking.Go(func() {
			r, err := dialRedis(ctx, addr)
			if err != nil {
				return // no answer is no vote
			}
			defer r.close() //nolint:errcheck // the answer is there
			if ok, err := r.ok(command...); ok && err == nil {
				yes.Add(1)
			}
		})
	}
	asking.Wait()
	return int(yes.Load())
}

// overNodes makes the opener of a Redlock that is as it should be, but for what breaks does to it.
func overNodes(breaks func(*quorumLock)) opener {
	return func(_ context.Context, p *part) (lock, error) {
		l := &quorumLock{part: p, value: rand.Text(), votes: len(p.Addrs)/2 + 1, now: time.Now}
		breaks(l)
		return l, nil
	}
}

// maxTTL is the longest ttl of Holdfast's locks on these servers.
const maxTTL = 2 * time.Second

func holdfastRedlock(p *part) (url string) {
	return redlockURL(p.Addrs) + fmt.Sprintf("&ttl=%v", min(p.TTL, maxTTL))
}

func redlockURL(addrs []string) string {
	return fmt.Sprintf("redlock://%s?max-ttl=%v", strings.Join(addrs, ","), maxTTL)
}

// startNodes starts servers that know nothing of each other, for Redlock.
func startNodes(t testing.TB, n int) []*servers.RedisServer {
	t.Helper()
	nodes := make([]*servers.RedisServer, n)
	for i := range nodes {
		nodes[i] = servers.Redis(t)
	}
	if _, err := redlock.Init(context.Background(), redlockURL(addrsOf(nodes))); err != nil {
		t.Fatal(err)
	}
	return nodes
}

func addrsOf(nodes []*servers.RedisServer) []string {
	addrs := make([]string, len(nodes))
	for i, node := range nodes {
		addrs[i] = node.Addr()
	}
	return addrs
}

// onSharedNodes makes the players use five servers that other plays use too.
func (s *stage) onSharedNodes() {
	nodes := share(s, "redlock", func(t testing.TB) []*servers.RedisServer { return startNodes(t, 5) })
	s.on(addrsOf(nodes)...)
}

var redlockHalf = &Rung{
	Number: 10, Name: "redlock-half",
	What:    "Redlock that is content with N/2 votes: of five servers that is two",
	Seen:    "re-implementations in languages that divide integers",
	Promise: oneHolder, Rule: check.Exclusion,
	Story: "The network is split. A reaches two of five servers and B two others.",
	Prevents: "A majority is more than half, N/2+1. Two of them always have a server in common, and it grants to " +
		"one. (A number of servers that is even, or less than three, is refused.)",
	Store: "redlock", Needs: redisServer, Budget: 20 * time.Second,
	broken:   overNodes(func(l *quorumLock) { l.votes = len(l.Addrs) / 2 }),
	holdfast: holdfastRedlock,
	schedule: func(s *stage) {
		s.onSharedNodes()
		nodes := s.random.Perm(5)
		a, b := s.enter("A"), s.enter("B")
		mend := a.isCutOff(nodes[2:]...)
		b.isCutOff(nodes[0], nodes[1], nodes[4])
		got := a.triesWrongly(s.millis(150, 300))
		b.triesWrongly(s.millis(150, 300))
		mend()
		if !got {
			a.locks()
		}
	},
}

var redlockElapsed = &Rung{
	Number: 10, Name: "redlock-no-elapsed",
	What:    "Redlock that counts its votes, and does not look how long they took",
	Seen:    "re-implementations, and clients with generous timeouts",
	Promise: oneHolder, Rule: check.Exclusion,
	Story: "All servers grant the lock to A, and their answers take longer than the ttl. Meanwhile it has expired " +
		"and B has it. A counts its votes and believes that it holds.",
	Prevents: "The time of a lease counts from when the request was sent, never from when the answer came. " +
		"An answer that is late is worth so much less, and nothing in the end.",
	Store: "redlock", Needs: redisServer, Budget: 20 * time.Second,
	broken:   overNodes(func(l *quorumLock) { l.hasty = true }),
	holdfast: holdfastRedlock,
	schedule: func(s *stage) {
		s.onSharedNodes()
		a, b := s.enter("A", ttl(s.millis(600, 900))), s.enter("B")
		deliver := a.holdBack(proxy.Down, "what the servers answer to A")
		w := a.asks()
		s.await("all servers have answered A", func() bool {
			for _, link := range a.links {
				if link.Held(proxy.Down) == 0 {
					return false
				}
			}
			return true
		})
		b.locks()
		deliver()
		if !w.grantedWrongly(s.millis(150, 250)) {
			w.givesUp()
		}
	},
}

var redlockClock = &Rung{
	Number: 10, Name: "redlock-clock",
	What:    "Redlock whose client tells by the wall clock when its time is over",
	Seen:    "clients that use the time of day for what is an interval",
	Promise: oneHolder, Rule: check.Exclusion,
	Story: "A has the lock and is cut off. Its clock is set back, as by NTP or an operator. The lock expires at the " +
		"servers, B gets it, and by A's clock there is plenty of time.",
	Prevents: "A lease ends when either clock says so, the wall clock or the monotonic one, which nobody can set. " +
		"(A's clock is set in the broken lock alone: a program cannot set the machine's without doing it to all. The " +
		"tests of the core set both clocks.)",
	Store: "redlock", Needs: redisServer, Budget: 20 * time.Second,
	broken:   overNodes(func(l *quorumLock) { l.now = l.clock }),
	holdfast: holdfastRedlock,
	schedule: func(s *stage) {
		s.onSharedNodes()
		var step atomic.Int64
		a := s.enter("A", ttl(s.millis(400, 700)), func(p *part) { p.stepped = &step })
		b := s.enter("B")
		a.locks()
		a.isCutOff()
		back := s.seconds(30, 90)
		step.Store(-int64(back))
		s.breaks("clock set back", "A", "A's clock is set back by %v", back)
		b.locks()
		s.must(pause(s.ctx, s.millis(20, 50)))
	},
}

var redlockRestart = &Rung{
	Number: 10, Name: "redlock-restart",
	What:    "Redlock whose servers vote again as soon as they are started",
	Seen:    "most deployments; the specification asks for delayed restarts, which nobody does by hand",
	Promise: oneHolder, Rule: check.Exclusion,
	Story: "A has the votes of two servers of three. One of them is restarted and has lost its data. It votes for B, " +
		"and so does the third.",
	Prevents: "Each server has a record of its run. One that was restarted, or has lost its data, has no vote for " +
		"the longest ttl, which every script checks at the server itself.",
	Store: "redlock", Needs: redisServer, Budget: 30 * time.Second,
	broken:   overNodes(func(*quorumLock) {}), // its servers are what is wrong
	holdfast: holdfastRedlock,
	schedule: func(s *stage) {
		var nodes []*servers.RedisServer
		s.starts(func(t testing.TB) { nodes = startNodes(t, 3) })
		s.on(addrsOf(nodes)...)
		order := s.random.Perm(3)
		a, b := s.enter("A"), s.enter("B")
		mendA := a.isCutOff(order[2])
		a.locks()
		victim := nodes[order[1]]
		name := fmt.Sprint("node ", order[1]+1)
		s.breaks("restarted", name, "%s is restarted, and has lost its data", name)
		s.must(errors.Join(victim.Kill(), victim.LoseData(), victim.Start()))
		mendB := b.isCutOff(order[0])
		w := b.asks()
		w.grantedWrongly(s.millis(500, 800))
		s.must(pause(s.ctx, s.millis(20, 50)))
		mendA()
		mendB()
		a.unlocks()
		w.granted()
	},
}

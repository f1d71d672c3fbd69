package mysql_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/store"
)

// TestFaults is the table of docs/guarantees.md. Through every fault believed holds exclude each other and tokens rise.
// After it every process gets a lock again, and at the end nothing is left.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		name   string
		strike func(s *scene)
		effect testkit.Effect
	}{
		{name: "server killed and started again", strike: func(s *scene) {
			s.Must(s.server.Kill())
			s.Must(s.server.Start())
		}},
		{name: "server stopped for more than the ttl", effect: testkit.MustHurt, strike: func(s *scene) {
			s.Holding(func() {
				s.Must(s.server.Pause())
				time.Sleep(2 * crowdTTL) // that is the fault
				s.Must(s.server.Continue())
			})
		}},
		{name: "all connections killed", strike: func(s *scene) {
			for range 5 {
				testkit.Await(s, "all are connected", func() bool {
					n, err := s.killConnections()
					s.Must(err)
					return n >= crowdProcesses
				})
			}
		}},
		{name: "one process in silence", strike: func(s *scene) {
			end := s.proxies[0].Silence(proxy.All)
			time.Sleep(2 * crowdTTL) // that is the fault
			end()
		}},
		{name: "late requests", strike: func(s *scene) { s.late(proxy.Requests) }},
		{name: "late replies", strike: func(s *scene) { s.late(proxy.Down) }},
		{name: "kill -9 of a process", effect: testkit.Harmless, strike: func(s *scene) { s.Must(s.Crowd.Kill(0)) }},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, crowdTTL)
			f.strike(s)
			s.Through()
			s.end(f.effect)
		})
	}
}

// late keeps back what one process sends or receives until its claims have expired, and delivers it then.
func (s *scene) late(flows proxy.Flow) {
	s.Helper()
	release := s.proxies[0].Hold(flows)
	time.Sleep(2 * crowdTTL) // that is the fault
	if s.proxies[0].Held(flows) == 0 {
		s.Error("nothing was kept back")
	}
	release()
}

// TestClockSteps sets the server's clock while a crowd contends. Forward by more than the ttl is as a loss of data:
// every claim has expired at once, and its holder learns of it from its next renewal. It is not set back: InnoDB's own
// timers see both clocks, and the server can abort. See TestClockSetBack.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	for _, step := range []struct {
		name  string
		by    time.Duration
		loses bool
	}{
		{"forward by less than the ttl", ttl / 5, false},
		{"forward by more than the ttl", 2 * ttl, true},
	} {
		t.Run(step.name, func(t *testing.T) {
			t.Parallel()
			clock := servers.NewClock(t)
			s := newScene(t, ttl, servers.Env(clock.Env()...))
			set := func() { clock.Step(step.by) }
			if step.loses {
				s.losing(set)
			} else {
				set()
			}
			s.Through()
			s.end(testkit.Harmless)
		})
	}
}

// A clock that was set back leaves claims that expire later than their ttl allows. Here they are made so by hand.
// Nobody waits longer for that than a ttl from when it is first noticed.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	h := newHarness(t)
	dead, waiter := h.open(t), h.open(t)
	testkit.Held(t, dead, testkit.Claim("x", ttl))
	_, err := h.db.Exec("UPDATE locks.holdfast_claims SET deadline = deadline + 3600000000, since = since + 3600000000")
	testkit.Must(t, err)
	c := testkit.Waiting(t, waiter, testkit.Claim("x", time.Minute))
	testkit.Await(t, "the waiter holds", func() bool { return testkit.Ask(t, waiter, c).State == store.Held })
}

// The same is noticed while a client only looks, long before any claim would have expired.
func TestClockSetBackUnderWaiter(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.open(t)
	testkit.Held(t, s, claim("x"))
	testkit.Waiting(t, s, claim("x"))
	h.exec(t, "UPDATE holdfast_claims SET deadline = deadline + 3600000000, since = since + 3600000000")
	testkit.Await(t, "the deadlines are mended", func() bool {
		var most int64
		testkit.Must(t, h.db.QueryRow("SELECT MAX(deadline) FROM locks.holdfast_claims").Scan(&most))
		return most < time.Now().Add(time.Hour/2).UnixMicro()
	})
}

package postgres_test

import (
	"database/sql"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/child"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/contend"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/sqlstore/postgres"
	"github.com/holdfast-go/holdfast/store"
)

// This binary is also the program of the processes that contend.
func init() { contend.Child() }

// How many contend, and with which ttl.
const (
	crowdProcesses  = 3
	crowdGoroutines = 4
	crowdTTL        = time.Second
)

// urlAt is the URL of a database that demands nothing of its clients, at this address.
func urlAt(address string) string {
	return "postgres://postgres@" + address + "/postgres?sslmode=disable"
}

// A scene is a server, processes that contend for its locks, and a proxy on the way of each.
type scene struct {
	*testkit.Scene
	server  *servers.PostgresServer
	db      *sql.DB // an operator's, past the proxies
	proxies []*proxy.Proxy
	ttl     time.Duration
	lost    history.Interval // while it lasts, a holder may believe what the server has given to another
}

// newScene starts a server and processes that have all had a lock. Some hold for longer than a ttl.
func newScene(t *testing.T, ttl time.Duration, options ...servers.Option) *scene {
	t.Helper()
	s := &scene{Scene: testkit.NewScene(t), server: servers.Postgres(t, options...), ttl: ttl}
	s.db = s.server.DB(t)
	var urls []string
	for range crowdProcesses {
		p := testkit.Proxy(t, s.server.Addr())
		s.proxies = append(s.proxies, p)
		urls = append(urls, fmt.Sprintf("%s&ttl=%v", urlAt(p.Addr()), ttl))
	}
	s.Start(contend.Plan{URLs: urls, Goroutines: crowdGoroutines, LongHold: ttl + crowdTTL/2})
	return s
}

// losing does something that makes the server forget claims that are held. For a ttl after it, their holders may still
// believe in them.
func (s *scene) losing(do func()) {
	s.Helper()
	s.lost.Begin = history.Now()
	do()
	s.lost.End = history.Now() + history.Instant(s.ttl)
}

// Errors of a server that is away, and of one that is slow, which needs no fault on a busy machine.
var (
	inTrouble = regexp.MustCompile("has ended this connection|cannot be reached|connection was closed")
	isSlow    = regexp.MustCompile("no response in")
)

// end stops the processes and checks what came of it.
func (s *scene) end(effect testkit.Effect) {
	s.Helper()
	outcome := s.Stop()
	s.CheckErrors(outcome, testkit.Excuse{Effect: effect, Trouble: inTrouble, Slow: isSlow})
	findings := outcome.Findings()
	if s.lost != (history.Interval{}) {
		s.Logf("%d holds broke a rule while claims were lost", len(findings))
		// Even then no ticket is given twice, and tokens rise in the order of the grants: a fence refuses the former
		// holder.
		findings = slices.DeleteFunc(findings,
			func(f check.Finding) bool { return f.Rule != check.Unique && f.Rule != check.Mark })
		outside := outcome.Outside(s.lost)
		findings = append(append(findings, check.Overlap(outside)...), check.Tokens(outside)...)
	}
	testkit.CheckNothing(s, findings)
	testkit.CheckNothingLeft(s, 2*s.ttl, func() []string { return leftovers(s, s.db) })
}

// leftovers has the tables swept, and returns the names that are still in them.
func leftovers(t testing.TB, db *sql.DB) []string {
	t.Helper()
	_, err := db.Exec("UPDATE holdfast.meta SET swept = 0")
	testkit.Must(t, err)
	s, err := postgres.New(t.Context(), db) // which sweeps
	testkit.Must(t, err)
	testkit.Must(t, s.Close())
	return column(t, db,
		"SELECT 'claim '||name FROM holdfast.claims UNION ALL SELECT 'tombstone '||name FROM holdfast.tombstones")
}

// TestFaults breaks something while processes contend. Through every fault believed holds exclude each other and tokens
// rise, after it everyone acquires a lock again, and at the end nothing is left in the tables.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, f := range []struct {
		name   string
		strike func(s *scene)
		effect testkit.Effect
	}{
		{name: "kill -9, restart", strike: (*scene).killServer},
		{name: "kill -9 of a backend", strike: (*scene).killBackend},
		{name: "backends terminated", strike: (*scene).terminateBackends},
		{name: "server stopped for less than the ttl", effect: testkit.Harmless,
			strike: func(s *scene) { s.pauseServer(crowdTTL / 3) }},
		{name: "server stopped for more than the ttl", effect: testkit.MustHurt,
			strike: func(s *scene) { s.Holding(func() { s.pauseServer(crowdTTL * 2) }) }},
		{name: "backend stopped within a call", strike: (*scene).pauseBackend},
		{name: "connections cut", strike: (*scene).cutConnections},
		{name: "replies swallowed", effect: testkit.MustHurt, strike: func(s *scene) {
			for _, p := range s.proxies {
				p.LoseReplies(4) // these connections are silent from now on, and are never healed
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

// exec runs a statement as an operator.
func (s *scene) exec(statement string) {
	s.Helper()
	_, err := s.db.ExecContext(s.Within(), statement)
	s.Must(err)
}

// killServer kills the server and starts it again with its data.
func (s *scene) killServer() {
	s.Helper()
	s.Must(s.server.Kill())
	s.Must(s.server.Start())
}

// others are the backends of the processes.
const others = " FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"

// terminateBackends ends all connections, again and again, each time when every process has some.
func (s *scene) terminateBackends() {
	s.Helper()
	for range 5 {
		testkit.Await(s, "all are connected", func() bool { return s.count(others) >= 2*crowdProcesses })
		s.exec("SELECT pg_terminate_backend(pid)" + others)
	}
}

func (s *scene) count(of string) (n int) {
	s.Helper()
	s.Must(s.db.QueryRowContext(s.Within(), "SELECT count(*)"+of).Scan(&n))
	return n
}

// killBackend kills one backend, upon which the server ends all others and recovers.
func (s *scene) killBackend() {
	s.Helper()
	s.Must(s.backend(others).Kill())
	testkit.Await(s, "the server is back", func() bool { return s.db.PingContext(s.Within()) == nil })
}

// backend returns the process of a backend.
func (s *scene) backend(which string) *os.Process {
	s.Helper()
	var pid int
	testkit.Await(s, "there is such a backend", func() bool {
		return s.db.QueryRowContext(s.Within(), "SELECT pid"+which+" LIMIT 1").Scan(&pid) == nil
	})
	p, err := os.FindProcess(pid)
	s.Must(err)
	return p
}

// pauseBackend stops a backend that has locked a slot, for longer than a ttl. A call that needs the slot waits for it.
func (s *scene) pauseBackend() {
	s.Helper()
	var p *os.Process
	testkit.Await(s, "a backend is stopped within a transaction", func() bool {
		p = s.backend(others + " AND state = 'active'")
		s.Must(child.Pause(p))
		const locks = " FROM pg_locks WHERE pid = %d AND relation = 'holdfast.slots'::regclass AND granted"
		if s.count(fmt.Sprintf(locks, p.Pid)) > 0 {
			return true
		}
		s.Must(child.Resume(p))
		return false
	})
	time.Sleep(2 * crowdTTL) // that is the fault
	s.Must(child.Resume(p))
}

func (s *scene) pauseServer(d time.Duration) {
	s.Helper()
	s.Must(s.server.Pause())
	time.Sleep(d) // that is the fault
	s.Must(s.server.Continue())
}

// cutConnections breaks all connections, again and again.
func (s *scene) cutConnections() {
	s.Helper()
	for range 5 {
		for _, p := range s.proxies {
			testkit.Await(s, "it is connected", func() bool { return p.Connections() > 1 })
			p.CloseAll()
		}
	}
}

// late keeps back what one process sends or hears until its claims have expired, and delivers it then.
func (s *scene) late(flows proxy.Flow) {
	s.Helper()
	release := s.proxies[0].Hold(flows)
	time.Sleep(2 * crowdTTL) // that is the fault
	if s.proxies[0].Held(flows) == 0 {
		s.Error("nothing was kept back")
	}
	release()
}

// TestClockSteps sets the server's clock while processes contend. Forward by more than the ttl, every claim expires at
// once: its holder learns so from its next renewal, and until then tokens tell which of two holders is the later. Back,
// nobody notices.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	const ttl = 1500 * time.Millisecond
	for _, step := range []struct {
		name  string
		by    time.Duration
		loses bool
	}{
		{"forward by more than the ttl", 2 * ttl, true},
		{"back", -time.Hour, false},
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

// A clock that is set back by an hour makes no claim wait longer for a dead holder than a ttl.
func TestClockBackAfterDeath(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	clock := servers.NewClock(t)
	server := servers.Postgres(t, servers.Env(clock.Env()...))
	s := openAt(t, urlAt(server.Addr()))
	testkit.Held(t, s, testkit.Claim("dead", ttl))
	waiter := testkit.Waiting(t, s, testkit.Claim("dead", time.Minute))
	stepped := time.Now()
	clock.Step(-time.Hour)
	testkit.AwaitHeld(t, s, waiter)
	if took := time.Since(stepped); took < ttl/2 {
		t.Errorf("granted after %v, and the holder has %v", took, ttl)
	}
}

// A clock that is set forward gives a lock to a second holder, whose token is higher.
func TestClockForward(t *testing.T) {
	t.Parallel()
	clock := servers.NewClock(t)
	server := servers.Postgres(t, servers.Env(clock.Env()...))
	s := openAt(t, urlAt(server.Addr()))
	first := testkit.Held(t, s, testkit.Claim("two", time.Minute))
	clock.Step(2 * time.Minute)
	second := testkit.Held(t, s, testkit.Claim("two", time.Minute))
	clock.Step(-time.Hour)
	testkit.Leave(t, s, second)
	third := testkit.Held(t, s, testkit.Claim("two", time.Minute))
	if first.Ticket >= second.Ticket || second.Ticket >= third.Ticket {
		t.Errorf("tickets %d, %d, %d", first.Ticket, second.Ticket, third.Ticket)
	}
	testkit.Keep(t, s, first, store.Gone)
}

// openAt opens a store that is closed with the test.
func openAt(t testing.TB, url string, options ...postgres.Option) *sqlstore.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, options...)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Check(t, s.Close()) })
	return s
}

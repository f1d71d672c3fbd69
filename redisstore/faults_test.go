package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// A fault is something that happens while a crowd contends.
type fault struct {
	name   string
	query  string // of the store's URL
	saves  bool   // the server saves what it does before it answers
	valkey bool   // the server is Valkey
	strike func(s *scene)
	effect testkit.Effect
}

// inMemory is a server that does not wait for a disk, which may be slow.
var inMemory = servers.Args("--appendonly", "no")

// TestFaults is the table of docs/guarantees.md. Through every fault believed holds exclude each other and tokens rise,
// but where the server loses what it has acknowledged: there only holds from before it and from a ttl after it do. With
// a startup delay all do, even there. After every fault everyone gets a lock again, and at the end nothing is left.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{
		{name: "kill -9, restart with data", saves: true, strike: (*scene).killServer},
		{name: "kill -9, restart with data, Valkey", saves: true, valkey: true, strike: (*scene).killServer},
		{name: "kill -9, restart without data", strike: func(s *scene) { s.losing(s.loseServer) }},
		{name: "kill -9, restart without data, startup delay", query: "&startup-delay=" + crowdTTL.String(),
			strike: (*scene).loseServer},
		{name: "server stopped for less than the ttl", effect: testkit.Harmless,
			strike: func(s *scene) { s.pauseServer(crowdTTL / 3) }},
		{name: "server stopped for more than the ttl", effect: testkit.MustHurt,
			strike: func(s *scene) { s.Holding(func() { s.pauseServer(crowdTTL * 2) }) }},
		{name: "connections killed", strike: (*scene).killConnections},
		{name: "scripts flushed", effect: testkit.Harmless, strike: (*scene).flushScripts},
		{name: "replies swallowed", effect: testkit.MustHurt, strike: func(s *scene) {
			for _, p := range s.proxies {
				p.LoseReplies(2) // both connections are silent from now on, and are never healed
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
		{name: "kill -9 of all processes", effect: testkit.Harmless,
			strike: func(s *scene) { s.Must(s.Crowd.Close()) }},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			options := []servers.Option{inMemory}
			if f.saves {
				options[0] = servers.Args("--appendfsync", "always")
			}
			if f.valkey {
				options = append(options, servers.Valkey())
			}
			s := newScene(t, crowdTTL, f.query, options...)
			f.strike(s)
			s.Through()
			s.end(f.effect)
		})
	}
}

// killServer starts the server again with its data.
func (s *scene) killServer() {
	s.Helper()
	s.Must(s.server.Kill())
	s.Must(s.server.Start())
}

// loseServer starts the server again without its data. Half of the processes do not hear of it for a while.
func (s *scene) loseServer() {
	s.Helper()
	mend1, mend2 := s.proxies[0].Cut(), s.proxies[1].Cut()
	s.Must(s.server.Kill())
	s.Must(s.server.LoseData())
	s.Must(s.server.Start())
	time.Sleep(crowdTTL / 2) // that is the while
	mend1()
	mend2()
}

func (s *scene) pauseServer(d time.Duration) {
	s.Helper()
	s.Must(s.server.Pause())
	time.Sleep(d) // that is the fault
	s.Must(s.server.Continue())
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

// killConnections ends all connections, again and again, each time when they are all there.
func (s *scene) killConnections() {
	s.Helper()
	for range 5 {
		for _, kind := range []string{"normal", "pubsub"} {
			testkit.Await(s, "all are connected", func() bool {
				return strings.Count(do(s, s.server, "CLIENT", "LIST", "TYPE", kind), "name=holdfast") >= crowdProcesses
			})
			do(s, s.server, "CLIENT", "KILL", "TYPE", kind)
		}
	}
}

// flushScripts makes the server forget all scripts, again and again, until they have been missed five times. One flush
// is not enough for that: requests with the text of a script may be on their way, and load it again.
func (s *scene) flushScripts() {
	s.Helper()
	for range 5 {
		do(s, s.server, "CONFIG", "RESETSTAT")
		testkit.Await(s, "the scripts are missed", func() bool {
			do(s, s.server, "SCRIPT", "FLUSH")
			return strings.Contains(do(s, s.server, "INFO", "errorstats"), "NOSCRIPT")
		})
	}
}

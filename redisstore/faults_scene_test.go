package redisstore_test

import (
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/check"
	crowds "github.com/holdfast-go/holdfast/lab/contend"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// This binary is also the program of the processes that contend.
func init() { crowds.Child() }

// How many contend, and with which ttl.
const (
	crowdProcesses  = 4
	crowdGoroutines = 16
	crowdTTL        = 500 * time.Millisecond
)

// A scene is a server, processes that contend for its locks, and a proxy on the way of each.
type scene struct {
	*testkit.Scene
	server  *servers.RedisServer
	proxies []*proxy.Proxy
	ttl     time.Duration
	lost    history.Interval // while it lasts, somebody may believe what the server has lost
	slower  time.Duration    // by how much the server's clock was set back: so much longer do its keys last
}

// newScene starts a server and a crowd that has settled down. Some hold for longer than a ttl.
func newScene(t *testing.T, ttl time.Duration, query string, options ...servers.Option) *scene {
	t.Helper()
	s := &scene{Scene: testkit.NewScene(t), server: servers.Redis(t, options...), ttl: ttl}
	var urls []string
	for range crowdProcesses {
		p := testkit.Proxy(t, s.server.Addr())
		s.proxies = append(s.proxies, p)
		urls = append(urls, fmt.Sprintf("redis://%s?ttl=%v%s", p.Addr(), ttl, query))
	}
	s.Start(crowds.Plan{URLs: urls, Goroutines: crowdGoroutines, LongHold: ttl + crowdTTL})
	return s
}

// losing does something that makes the server forget claims that are held. For a ttl after it, their holders may
// believe in them, and one who was just granted a lock may even begin to.
func (s *scene) losing(do func()) {
	s.Helper()
	s.lost.Begin = history.Now()
	do()
	s.lost.End = history.Now() + history.Instant(s.ttl)
}

// Errors of a server that is away, and of one that is slow: on a busy machine that needs no fault.
var (
	inTrouble = regexp.MustCompile("cannot be reached|connection was closed|still loading")
	isSlow    = regexp.MustCompile("no response in")
)

// end stops the crowd and checks what came of it.
func (s *scene) end(of testkit.Effect) {
	s.Helper()
	outcome := s.Stop()
	s.CheckErrors(outcome, testkit.Excuse{Effect: of, Trouble: inTrouble, Slow: isSlow})
	s.check(outcome)
	// The last claim is out a ttl after the crowd has ended, and its keys a ttl later.
	testkit.CheckNothingLeft(s, 2*s.ttl+s.slower, func() []string {
		own := []string{"holdfast:{}:id", "holdfast:{}:mark", "holdfast:{}:run"}
		return slices.DeleteFunc(scan(s, s.server), func(key string) bool { return slices.Contains(own, key) })
	})
}

// check looks for what must not be: in all holds, or, where claims were lost, in those that are surely from before or
// from after.
func (s *scene) check(outcome *crowds.Outcome) {
	s.Helper()
	findings := outcome.Findings()
	if s.lost != (history.Interval{}) {
		s.Logf("%d holds broke a rule while claims were lost", len(findings))
		// Even then no ticket is given twice.
		findings = slices.DeleteFunc(findings,
			func(f check.Finding) bool { return f.Rule != check.Unique && f.Rule != check.Mark })
		outside := outcome.Outside(s.lost)
		findings = append(append(findings, check.Overlap(outside)...), check.Tokens(outside)...)
	}
	testkit.CheckNothing(s, findings)
}

// scan gives all keys of the server.
func scan(t testing.TB, server *servers.RedisServer) (keys []string) {
	t.Helper()
	for cursor := "0"; ; {
		answer, err := server.Do("SCAN", cursor, "COUNT", "1000")
		testkit.Must(t, err)
		page := answer.([]any)
		for _, key := range page[1].([]any) {
			keys = append(keys, key.(string))
		}
		if cursor = page[0].(string); cursor == "0" {
			return keys
		}
	}
}

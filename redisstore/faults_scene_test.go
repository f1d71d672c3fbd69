package redisstore_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/check"
	crowds "github.com/holdfast-go/holdfast/lab/contend"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// This binary is also the program of the processes that contend.
func init() { crowds.Child() }

// How many contend, with which ttl, and how long it may take until all have got a lock.
const (
	crowdProcesses  = 4
	crowdGoroutines = 16
	crowdTTL        = 500 * time.Millisecond
	crowdPatience   = time.Minute
)

// A scene is a server, processes that contend for its locks, and a proxy on the way of each.
type scene struct {
	*testing.T
	server  *servers.RedisServer
	proxies []*proxy.Proxy
	crowd   *crowds.Crowd
	ttl     time.Duration
	lost    history.Interval // while it lasts, somebody may believe what the server has lost
	slower  time.Duration    // by how much the server's clock was set back: so much longer do its keys last
}

// newScene starts a server and a crowd that has settled down. Some hold for longer than a ttl.
func newScene(t *testing.T, ttl time.Duration, query string, options ...servers.Option) *scene {
	t.Helper()
	s := &scene{T: t, server: servers.Redis(t, options...), ttl: ttl}
	var urls []string
	for range crowdProcesses {
		p, err := proxy.Start("tcp", s.server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		s.proxies = append(s.proxies, p)
		urls = append(urls, fmt.Sprintf("redis://%s?ttl=%v%s", p.Addr(), ttl, query))
	}
	var err error
	plan := crowds.Plan{Dir: evidence(t), URLs: urls, Goroutines: crowdGoroutines, LongHold: ttl + crowdTTL}
	if s.crowd, err = crowds.Start(s.within(), plan); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.must(s.crowd.Close()) })
	s.through()
	return s
}

// evidence is a folder that stays if the test fails.
func evidence(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast-faults-") //nolint:usetesting // it must outlive a test that fails
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the histories are kept: %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) within() context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), crowdPatience)
	s.Cleanup(cancel)
	return ctx
}

// through waits until every goroutine has got a lock that it asked for from now on.
func (s *scene) through() {
	s.Helper()
	began := time.Now()
	if err := s.crowd.Through(s.within()); err != nil {
		outcome, stopped := s.crowd.Stop(s.within())
		s.Fatalf("%v\nstopped: %v\nreports: %+v", err, stopped, outcome.Reports)
	}
	s.Logf("all are through after %v", time.Since(began).Round(time.Millisecond))
}

// losing does something that makes the server forget claims that are held. For a ttl after it, their holders may
// believe in them, and one who was just granted a lock may even begin to.
func (s *scene) losing(do func()) {
	s.Helper()
	s.lost.Begin = history.Now()
	do()
	s.lost.End = history.Now() + history.Instant(s.ttl)
}

// An effect is what a fault does to those who contend.
type effect int

const (
	mayHurt  effect = iota // calls may fail
	mustHurt               // calls fail, or leases are lost
	harmless               // no call fails because of it
)

// end stops the crowd and checks what came of it.
func (s *scene) end(of effect) {
	s.Helper()
	outcome, err := s.crowd.Stop(s.within())
	s.must(err)
	total := outcome.Total()
	s.Logf("%d acquired, %d lost, %d kinds of faults, %d holds", total.Acquired, total.Lost, len(total.Faults), len(outcome.Holds))
	if of == mustHurt && total.Lost+len(total.Faults) == 0 {
		s.Error("nobody has felt the fault")
	}
	for text, n := range total.Faults {
		slow := strings.Contains(text, "no answer in") // on a machine that is busy this needs no fault
		if !slow && (of == harmless || !inTrouble(text)) {
			s.Errorf("an error that the fault does not explain, %d times: %s", n, text)
		}
	}
	for text, n := range total.Wrong {
		s.Errorf("an error that must not be, %d times: %s", n, text)
	}
	s.check(outcome)
	s.nothingIsLeft()
}

// inTrouble says whether an error tells of a server that is away, and not of one that does not understand.
func inTrouble(text string) bool {
	return slices.ContainsFunc([]string{"cannot be reached", "connection was closed", "still loading"},
		func(trouble string) bool { return strings.Contains(text, trouble) })
}

// check looks for what must not be: in all holds, or, where claims were lost, in those that are surely from before or
// from after.
func (s *scene) check(outcome *crowds.Outcome) {
	s.Helper()
	findings := outcome.Findings()
	if s.lost != (history.Interval{}) {
		s.Logf("%d holds broke a rule while claims were lost", len(findings))
		// Even then no ticket is given twice.
		findings = slices.DeleteFunc(findings, func(f check.Finding) bool { return f.Rule != check.Unique && f.Rule != check.Mark })
		outside := outcome.Outside(s.lost)
		findings = append(append(findings, check.Overlap(outside)...), check.Tokens(outside)...)
	}
	for i, finding := range findings {
		if i == 5 {
			s.Errorf("and %d more", len(findings)-i)
			break
		}
		s.Error(finding)
	}
}

// nothingIsLeft waits until the server has nothing but the few keys that are for all names. The last claim is out a ttl
// after the crowd has ended, and its keys a ttl later. A busy machine may be slow to say so.
func (s *scene) nothingIsLeft() {
	s.Helper()
	own := []string{"holdfast:{}:id", "holdfast:{}:mark", "holdfast:{}:run"}
	deadline := time.Now().Add(2*s.ttl + s.slower + 10*time.Second)
	for {
		keys := scan(s.T, s.server)
		left := slices.DeleteFunc(keys, func(key string) bool { return slices.Contains(own, key) })
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.Errorf("all have ended, two ttls have passed, and these keys are left: %q", left)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// scan gives all keys of the server.
func scan(t testing.TB, server *servers.RedisServer) (keys []string) {
	t.Helper()
	for cursor := "0"; ; {
		answer, err := server.Do("SCAN", cursor, "COUNT", "1000")
		if err != nil {
			t.Fatal(err)
		}
		page := answer.([]any)
		for _, key := range page[1].([]any) {
			keys = append(keys, key.(string))
		}
		if cursor = page[0].(string); cursor == "0" {
			return keys
		}
	}
}

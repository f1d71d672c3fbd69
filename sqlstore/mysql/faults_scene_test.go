package mysql_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/contend"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// This binary is also the program of the processes that contend.
func init() { contend.Child() }

const (
	crowdProcesses  = 3
	crowdGoroutines = 4
	crowdTTL        = time.Second
)

// A scene is a server, processes that contend for its locks, and a proxy on the way of each.
type scene struct {
	*testkit.Scene
	*harness
	proxies []*proxy.Proxy
	ttl     time.Duration
	lost    history.Interval // while it lasts, two clients may believe to hold a lock
}

// newScene starts a server and a crowd that has settled down. Some hold for longer than a ttl.
func newScene(t *testing.T, ttl time.Duration, options ...servers.Option) *scene {
	t.Helper()
	s := &scene{Scene: testkit.NewScene(t), harness: newHarness(t, options...), ttl: ttl}
	var urls []string
	for range crowdProcesses {
		p := testkit.Proxy(t, s.server.Addr())
		s.proxies = append(s.proxies, p)
		urls = append(urls, fmt.Sprintf("mysql://root@%s/%s?ttl=%v", p.Addr(), database, ttl))
	}
	s.Scene.Start(contend.Plan{URLs: urls, Goroutines: crowdGoroutines, LongHold: ttl * 3 / 2})
	return s
}

// losing does something that ends claims under their holders. For a ttl after it, they may still believe in them.
func (s *scene) losing(do func()) {
	s.Helper()
	s.lost.Begin = history.Now()
	do()
	s.lost.End = history.Now() + history.Instant(s.ttl)
}

// Errors of a server that is away, and of one that is slow: on a busy machine that needs no fault.
var (
	inTrouble = regexp.MustCompile(
		"connection refused|invalid connection|bad connection|EOF|reset by peer|broken pipe|" +
			"is stopping, or has ended|no connection left|is read-only",
	)
	isSlow = regexp.MustCompile("no response in")
)

// end stops the crowd and checks what came of it.
func (s *scene) end(of testkit.Effect) {
	s.Helper()
	outcome := s.Scene.Stop()
	s.CheckErrors(outcome, testkit.Excuse{Effect: of, Trouble: inTrouble, Slow: isSlow})
	findings := outcome.Findings()
	if s.lost != (history.Interval{}) {
		s.Logf("%d holds broke a rule while claims were lost", len(findings))
		findings = slices.DeleteFunc(findings, func(f check.Finding) bool {
			return f.Rule != check.Unique && f.Rule != check.Mark
		})
		outside := outcome.Outside(s.lost)
		findings = append(append(findings, check.Overlap(outside)...), check.Tokens(outside)...)
	}
	testkit.CheckNothing(s, findings)
	testkit.CheckNothingLeft(s, 2*s.ttl, s.left)
}

// left has the store swept, and returns what is in the tables then.
func (s *scene) left() (rows []string) {
	s.Helper()
	s.Must(s.sweep())
	found, err := s.db.Query(
		"SELECT name FROM locks.holdfast_claims UNION ALL SELECT name FROM locks.holdfast_tombstones",
	)
	s.Must(err)
	defer found.Close()
	for found.Next() {
		var name string
		s.Must(found.Scan(&name))
		rows = append(rows, name)
	}
	s.Must(found.Err())
	return rows
}

// killConnections ends all connections of the store, and reports how many there were.
func (h *harness) killConnections() (n int, err error) {
	rows, err := h.db.Query("SELECT id FROM information_schema.processlist WHERE db = ?", database)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return n, err
		}
		// One that has ended by itself is no error.
		if _, err := h.db.Exec(fmt.Sprintf("KILL %d", id)); err != nil && !strings.Contains(err.Error(), "1094") {
			return n, err
		}
		n++
	}
	return n, rows.Err()
}

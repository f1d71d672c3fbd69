package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/holdfast-go/holdfast/internal/servers"
)

// testConsul starts a Consul, and demands at the end that nothing of it is left.
func testConsul(t *testing.T, set serverSettings) *consulServers {
	t.Helper()
	servers.Need(t, "consul")
	on, err := startConsul(t.Context(), set)
	must(t, err)
	c := on.(*consulServers)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for _, n := range c.Nodes {
			checkGone(t, n.Server)
		}
	})
	return c
}

func TestConsul(t *testing.T) {
	t.Parallel()
	c := testConsul(t, serverSettings{nodes: 1})
	t.Run("fresh", func(t *testing.T) { testConsulFresh(t, c) })
	t.Run("usage", func(t *testing.T) { testConsulUsage(t, c) })
	t.Run("session in one process", func(t *testing.T) { testConsulInOneProcess(t, c) })
	t.Run("contestants", func(t *testing.T) {
		names := []string{"raw-consul", "holdfast-consul", "api-lock", "api-lock-session"}
		testContestants(t, c, time.Second, callLimits{2, 8, 100}, names...)
	})
}

func TestConsulCluster(t *testing.T) {
	t.Parallel()
	c := testConsul(t, serverSettings{nodes: 3})
	if !strings.Contains(c.About(), "3 servers") {
		t.Errorf("it is %q", c.About())
	}
	testContestants(t, c, time.Second, callLimits{2, 8, 100}, "holdfast-consul", "api-lock-session")
}

// A measurement finds nothing of the one before, nor does a lock delay keep it from a lock that a dead worker had.
func testConsulFresh(t *testing.T, c *consulServers) {
	dead, err := openConsul(t.Context(), c.Endpoints()[0], lockTTL)
	must(t, err)
	defer dead.Close()
	id, _, err := dead.Session().Create(&api.SessionEntry{LockDelay: time.Minute}, nil)
	must(t, err)
	held, _, err := dead.KV().Acquire(&api.KVPair{Key: "key", Session: id}, nil)
	if !held {
		t.Fatalf("the key was not acquired: %v", err)
	}
	for range 2 { // also where there is nothing to remove
		_, err := c.Fresh(t.Context())
		must(t, err)
	}
	keys, _, err := dead.KV().Keys("", "", nil)
	must(t, err)
	sessions, _, err := dead.Session().List(nil)
	if err != nil || len(keys)+len(sessions) > 0 {
		t.Errorf("there are still keys %q and sessions %v: %v", keys, sessions, err)
	}
	l, err := openConsulLock(t.Context(), c.Endpoints()[0], lockTTL)
	must(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // after a delay it would try again in five
	defer cancel()
	got, err := l.Acquire(ctx, "key")
	must(t, err)
	must(t, got.Release())
}

// What is said of a server is what it does.
func testConsulUsage(t *testing.T, c *consulServers) {
	before, err := c.Usage(t.Context())
	must(t, err)
	for range 20 {
		must(t, c.call(t.Context(), http.MethodGet, "/v1/status/peers", nil))
	}
	after, err := c.Usage(t.Context())
	must(t, err)
	// The last may be counted only when it has long been answered, and so may those of a lock before.
	used := after.since(before)
	if n := used.calls["GET v1_status_peers"]; !used.known || n < 19 || n > 20 || used.sent(nil) < n ||
		used.sent(nil) > 25 {
		t.Errorf("for 20 requests the usage is %+v", used)
	}
	for _, words := range []string{"Consul 1.", "1 server,", "with fsync"} {
		if !strings.Contains(c.About(), words) {
			t.Errorf("it is %q, want %q in it", c.About(), words)
		}
	}
}

// Two goroutines of one session do not have a lock at once, and one that gives up does not keep it from others.
func testConsulInOneProcess(t *testing.T, c *consulServers) {
	l, err := onConsul(newConsulSessionLock)(t.Context(), c.Endpoints()[0], lockTTL)
	must(t, err)
	defer l.Close()
	first, err := l.Acquire(t.Context(), "name")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := l.Acquire(ctx, "name"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second goroutine: %v, want %v", err, context.DeadlineExceeded)
	}
	must(t, first.Release())
	second, err := l.Acquire(t.Context(), "name")
	must(t, err)
	must(t, second.Release())
}

func TestConsulThatDoesNotStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := startConsul(ctx, serverSettings{nodes: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}

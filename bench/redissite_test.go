package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/servers"
)

// testSite starts a site of Redis servers, and demands at the end that nothing of it is left.
func testSite(t *testing.T, kind *siteKind) *redisServers {
	t.Helper()
	t.Parallel()
	servers.Need(t, "redis-server")
	on, err := kind.start(t.Context(), serverSettings{})
	must(t, err)
	s := on.(*redisServers)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		for _, server := range slices.Concat(s.masters, s.replicas) {
			checkGone(t, server.Server)
		}
	})
	return s
}

// checkGone demands that a server has ended and left nothing.
func checkGone(t *testing.T, s *servers.Server) {
	t.Helper()
	if s.Pid() != 0 {
		t.Errorf("%s still runs", s.Addr())
	}
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s left its folder: %v", s.Addr(), err)
	}
}

func TestSentinel(t *testing.T) {
	s := testSite(t, sentinelSite)
	if want := ", a master with 2 replicas, and 3 sentinels, no persistence, on loopback"; !strings.HasSuffix(
		s.About(),
		want,
	) {
		t.Errorf("it is %q, want %q", s.About(), want)
	}
	if len(s.replicas) != sentinelReplicas {
		t.Errorf("%d replicas, want %d", len(s.replicas), sentinelReplicas)
	}
	master := s.masters[0]
	for _, r := range s.replicas {
		info, err := r.Info("replication")
		if err != nil || info["role"] != "slave" || info["master_port"] != strconv.Itoa(master.Port()) {
			t.Errorf("%s is no replica of %s: %v, %v", r.Addr(), master.Addr(), info, err)
		}
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{master.Addr()}})
	must(t, err)
	defer client.Close()
	testFresh(t, s, client)
	testContestants(t, s, time.Second, callLimits{2, 4, math.MaxInt},
		"raw-sentinel", "holdfast-sentinel", "holdfast-replicas")
}

func TestCluster(t *testing.T) {
	s := testSite(t, clusterSite)
	if want := ", a cluster of 3 masters, no persistence, on loopback"; !strings.HasSuffix(s.About(), want) {
		t.Errorf("it is %q, want %q", s.About(), want)
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: strings.Split(s.where, ",")})
	must(t, err)
	defer client.Close()
	if n := len(client.Nodes()); n != 3 {
		t.Errorf("a client sees %d nodes, want 3", n)
	}
	testFresh(t, s, client)
	testContestants(t, s, time.Second, callLimits{2, 4, math.MaxInt}, "raw-cluster", "holdfast-cluster")
}

// testFresh demands that what is written is counted once, is on every master, and is gone when it has to be.
func testFresh(t *testing.T, s *redisServers, client rueidis.Client) {
	t.Helper()
	const keys = 100
	before, err := s.Usage(t.Context())
	must(t, err)
	for i := range keys {
		must(t, client.Do(t.Context(), client.B().Set().Key(fmt.Sprint("key", i)).Value("1").Build()).Error())
	}
	after, err := s.Usage(t.Context())
	if used := after.since(before); err != nil || !used.known || used.calls["set"] != keys || used.cpu <= 0 ||
		used.commands < keys {
		t.Errorf("the usage is %+v, %v", used, err)
	}
	for _, m := range s.masters {
		if n := size(t, m); n == 0 {
			t.Errorf("%s has nothing", m.Addr())
		}
	}
	if where, err := s.Fresh(t.Context()); err != nil || where != s.where {
		t.Fatalf("it is at %q, %v", where, err)
	}
	for _, m := range s.masters {
		if n := size(t, m); n > 0 {
			t.Errorf("%s still has %d keys", m.Addr(), n)
		}
	}
}

// size is how many keys a server has.
func size(t *testing.T, s *servers.RedisServer) int64 {
	t.Helper()
	n, err := s.Do("DBSIZE")
	must(t, err)
	return n.(int64)
}

// A lock that replicas have to acknowledge asks them, and one that has not does not.
func TestWhoWaitsForReplicas(t *testing.T) {
	s := testSite(t, sentinelSite)
	for name, waits := range map[string]bool{"holdfast-sentinel": false, "holdfast-replicas": true} {
		before, err := s.Usage(t.Context())
		must(t, err)
		measureWell(t, s, name, small(1, 1))
		after, err := s.Usage(t.Context())
		if n := after.since(before).calls["wait"]; err != nil || (n > 0) != waits {
			t.Errorf("%s sent WAIT %d times, %v", name, n, err)
		}
	}
}

// A start that is stopped leaves nothing.
func TestGroupsThatDoNotStart(t *testing.T) {
	for _, kind := range []*siteKind{sentinelSite, clusterSite, mastersSite} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := kind.start(ctx, serverSettings{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", kind.name, err, context.Canceled)
		}
	}
}

func TestMasters(t *testing.T) {
	s := testSite(t, mastersSite)
	if want := ", 5 independent masters, no persistence, on loopback"; !strings.HasSuffix(s.About(), want) {
		t.Errorf("it is %q, want %q", s.About(), want)
	}
	for _, m := range s.masters {
		if _, err := m.Do("SET", "key", "1"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, m := range s.masters {
		if n := size(t, m); n != 1 {
			t.Errorf("%s has %d keys, want the record alone", m.Addr(), n)
		}
	}
	testContestants(t, s, time.Second, callLimits{0, math.MaxInt, math.MaxInt}, "holdfast-master")
	majority := callLimits{2 * (independentMasters/2 + 1), math.MaxInt, math.MaxInt} // it is asked twice
	testContestants(t, s, time.Second, majority, "holdfast-redlock", "holdfast-redlock-unsaved",
		"redsync-redlock", "redsync-redlock-rueidis", "redsync-redlock-failfast")
}

// A master that stands still is noticed by who needs it, and is on its feet again afterwards.
func TestMasterStopped(t *testing.T) {
	s := testSite(t, mastersSite)
	w := small(1, 1)
	// A node has a twentieth of the ttl to answer. A half is longer: a turn that the stop makes wait is not its only
	// one.
	w.Lasts, w.TTL, w.Stops = 6*time.Second, 20*time.Second, true
	m := measureWell(t, s, "holdfast-redlock", w)
	if m.faults() != 0 || m[beforeP50] == 0 || m[afterP50] == 0 || m[afterToBefore] != m[afterP50]/m[beforeP50] {
		t.Errorf("%v", m)
	}
	// Redsync waits for all nodes: with one that stands still it has next to nothing done.
	m, _, err := measureOnce(t.Context(), s, contestantNamed("redsync-redlock"), w)
	if err != nil || m[beforeP50] == 0 || m[afterP50] > 0 && m[afterToBefore] < 5 {
		t.Errorf("%v, %v", m, err)
	}
	for _, m := range s.masters {
		if _, err := m.Do("PING"); err != nil {
			t.Errorf("%s: %v", m.Addr(), err)
		}
	}
}

// What cannot be paused is not measured as if it were.
func TestNothingToStop(t *testing.T) {
	w := small(1, 1)
	w.Stops = true
	if _, _, err := measureTest(t, t.Context(), "flock", w); !errors.Is(err, errNoPause) {
		t.Errorf("%v, want %v", err, errNoPause)
	}
	s := testSite(t, mastersSite)
	must(t, s.masters[independentMasters-1].Kill())
	if _, err := s.Pause(); err == nil {
		t.Error("a master that is dead was paused")
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/servers"
)

// testGroup starts a group, and demands at the end that nothing of it is left.
func testGroup(t *testing.T, kind *siteKind) *redisGroup {
	t.Helper()
	servers.Need(t, "redis-server")
	t.Setenv("TMPDIR", t.TempDir())
	on, err := kind.start(t.Context(), serverSettings{})
	if err != nil {
		t.Fatal(err)
	}
	g := on.(*redisGroup)
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		for _, s := range g.all() {
			if s.proc.cmd.ProcessState == nil {
				t.Errorf("%s still runs", s.addr)
			}
		}
		if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
			t.Errorf("it left %v, %v", left, err)
		}
	})
	return g
}

func TestSentinel(t *testing.T) {
	g := testGroup(t, sentinelSite)
	if want := ", a master with 2 replicas, and 3 sentinels, no persistence, on loopback"; !strings.HasSuffix(g.About(), want) {
		t.Errorf("it is %q, want %q", g.About(), want)
	}
	for _, r := range g.replicas {
		info, err := r.info(t.Context())
		if err != nil || info["role"] != "slave" || info["master_port"] != g.masters[0].port {
			t.Errorf("%s is no replica of %s: %v, %v", r.addr, g.masters[0].addr, info, err)
		}
	}
	for _, s := range g.sentinels {
		addr, err := s.client.Do(t.Context(), s.client.B().SentinelGetMasterAddrByName().Master(masterName).Build()).AsStrSlice()
		if err != nil || strings.Join(addr, ":") != g.masters[0].addr {
			t.Errorf("sentinel %s names %v, %v; want %s", s.addr, addr, err, g.masters[0].addr)
		}
	}
	testGroupFresh(t, g, g.masters[0].client)
	testGroupContestants(t, g, "raw-sentinel", "holdfast-sentinel", "holdfast-replicas")
}

func TestCluster(t *testing.T) {
	g := testGroup(t, clusterSite)
	if want := ", a cluster of 3 masters, no persistence, on loopback"; !strings.HasSuffix(g.About(), want) {
		t.Errorf("it is %q, want %q", g.About(), want)
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: strings.Split(g.where, ",")})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if n := len(client.Nodes()); n != groupMasters {
		t.Errorf("a client sees %d nodes, want %d", n, groupMasters)
	}
	testGroupFresh(t, g, client)
	testGroupContestants(t, g, "raw-cluster", "holdfast-cluster")
}

// testGroupFresh demands that what is written is counted once, is on every master, and is gone when it has to be.
func testGroupFresh(t *testing.T, g *redisGroup, client rueidis.Client) {
	t.Helper()
	const keys = 100
	before, err := g.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		if err := client.Do(t.Context(), client.B().Set().Key(fmt.Sprint("key", i)).Value("1").Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	after, err := g.Usage(t.Context())
	if used := after.since(before); err != nil || !used.known || used.calls["set"] != keys || used.cpu <= 0 || used.commands < keys {
		t.Errorf("the usage is %+v, %v", used, err)
	}
	for _, m := range g.masters {
		if n := size(t, m); n == 0 {
			t.Errorf("%s has nothing", m.addr)
		}
	}
	if where, err := g.Fresh(t.Context()); err != nil || where != g.where {
		t.Fatalf("it is at %q, %v", where, err)
	}
	for _, m := range g.masters {
		if n := size(t, m); n > 0 {
			t.Errorf("%s still has %d keys", m.addr, n)
		}
	}
}

func size(t *testing.T, s *redisServer) int64 {
	t.Helper()
	n, err := s.client.Do(t.Context(), s.client.B().Dbsize().Build()).ToInt64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// testGroupContestants measures them alone and contended: no two hold at once, and a lock costs a few calls.
func testGroupContestants(t *testing.T, g *redisGroup, names ...string) {
	t.Helper()
	contended := small(2, 1)
	contended.Work = time.Millisecond
	for _, name := range names {
		for _, w := range []*workload{small(1, 1), contended} {
			m, firstError, err := measureOnce(t.Context(), g, contestantNamed(name), w)
			if err != nil || firstError != "" {
				t.Fatalf("%s: %v, %s", name, err, firstError)
			}
			if m.faults() != 0 || m[throughput] == 0 || m[callsPerOp] < 2 || !w.contended() && m[callsPerOp] > 4 {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

// A lock that replicas have to acknowledge asks them, and one that has not does not.
func TestWhoWaitsForReplicas(t *testing.T) {
	g := testGroup(t, sentinelSite)
	for name, waits := range map[string]bool{"holdfast-sentinel": false, "holdfast-replicas": true} {
		before, err := g.Usage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, firstError, err := measureOnce(t.Context(), g, contestantNamed(name), small(1, 1)); err != nil || firstError != "" {
			t.Fatalf("%s: %v, %s", name, err, firstError)
		}
		after, err := g.Usage(t.Context())
		if n := after.since(before).calls["wait"]; err != nil || (n > 0) != waits {
			t.Errorf("%s sent WAIT %d times, %v", name, n, err)
		}
	}
}

// A start that is stopped leaves nothing.
func TestGroupsThatDoNotStart(t *testing.T) {
	servers.Need(t, "redis-server")
	t.Setenv("TMPDIR", t.TempDir())
	for _, kind := range []*siteKind{sentinelSite, clusterSite, mastersSite} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := kind.start(ctx, serverSettings{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", kind.name, err, context.Canceled)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

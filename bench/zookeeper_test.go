package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
)

// testZooKeeper starts a ZooKeeper, and demands at the end that nothing of it is left.
func testZooKeeper(t *testing.T, set serverSettings) *zooKeeperServers {
	t.Helper()
	servers.Need(t, "zookeeper")
	on, err := startZooKeeper(t.Context(), set)
	must(t, err)
	z := on.(*zooKeeperServers)
	t.Cleanup(func() {
		if err := z.Close(); err != nil {
			t.Error(err)
		}
		for _, n := range z.Nodes {
			checkGone(t, n.Server)
		}
	})
	return z
}

func TestZooKeeper(t *testing.T) {
	t.Parallel()
	z := testZooKeeper(t, serverSettings{nodes: 1})
	t.Run("fresh", func(t *testing.T) { testZooKeeperFresh(t, z) })
	t.Run("usage", func(t *testing.T) { testZooKeeperUsage(t, z) })
	t.Run("contestants", func(t *testing.T) {
		names := []string{"raw-zookeeper", "holdfast-zookeeper", "holdfast-curator", "zk-lock"}
		testContestants(t, z, time.Second, callLimits{2, 5, 50}, names...)
	})
	t.Run("curator", func(t *testing.T) {
		needCurator(t)
		testContestants(t, z, time.Second, callLimits{2, 5, 50}, "curator")
	})
}

// needCurator leaves a test out where Curator or a compiler is missing.
func needCurator(t *testing.T) {
	t.Helper()
	servers.Need(t, "javac")
	if _, err := curatorClasses(); err != nil {
		servers.LeaveOut(t, err.Error())
	}
}

func TestZooKeeperEnsemble(t *testing.T) {
	t.Parallel()
	z := testZooKeeper(t, serverSettings{nodes: 3, noFsync: true})
	if about := z.About(); !strings.Contains(about, "3 nodes") || !strings.Contains(about, "without fsync") {
		t.Errorf("it is %q", about)
	}
	testContestants(t, z, time.Second, callLimits{2, 8, 100}, "holdfast-zookeeper", "zk-lock")
}

// A measurement finds nothing of the one before.
func testZooKeeperFresh(t *testing.T, z *zooKeeperServers) {
	for _, path := range []string{"/a", "/a/b", "/a/b/c", "/d"} {
		_, err := z.session.Create(path, nil, 0, everybody)
		must(t, err)
	}
	for range 2 { // also where there is nothing to remove
		_, err := z.Fresh(t.Context())
		must(t, err)
	}
	if left, _, err := z.session.Children("/"); err != nil || len(left) != 1 {
		t.Errorf("there is still %q, %v", left, err)
	}
}

// What is said of a server is what it does.
func testZooKeeperUsage(t *testing.T, z *zooKeeperServers) {
	before, err := z.Usage(t.Context())
	must(t, err)
	for range 20 {
		_, _, err := z.session.Exists("/a")
		must(t, err)
	}
	after, err := z.Usage(t.Context())
	must(t, err)
	if used := after.since(before); !used.known || used.sent(nil) < 20 || used.sent(nil) > 30 {
		t.Errorf("for 20 requests the usage is %+v", used)
	}
	for _, words := range []string{"ZooKeeper 3.", "1 node,", "with fsync"} {
		if !strings.Contains(z.About(), words) {
			t.Errorf("it is %q, want %q in it", z.About(), words)
		}
	}
}

func TestZooKeeperThatDoesNotStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := startZooKeeper(ctx, serverSettings{nodes: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}

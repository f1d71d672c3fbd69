package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/internal/servers"
)

// testEtcd starts an etcd, and demands at the end that nothing of it is left.
func testEtcd(t *testing.T, set serverSettings) *etcdCluster {
	t.Helper()
	servers.Need(t, "etcd")
	on, err := startEtcd(t.Context(), set)
	must(t, err)
	c := on.(*etcdCluster)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for _, n := range c.nodes {
			checkGone(t, n.Server)
		}
	})
	return c
}

func TestEtcd(t *testing.T) {
	for name, set := range map[string]serverSettings{"one node": {nodes: 1}, "three nodes": {nodes: 3, noFsync: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testEtcd(t, set)
			t.Run("settings", func(t *testing.T) { testEtcdSettings(t, c) })
			t.Run("fresh", func(t *testing.T) { testEtcdFresh(t, c) })
			t.Run("contestants", func(t *testing.T) { testEtcdContestants(t, c) })
			t.Run("recipe in one process", func(t *testing.T) { testRecipeInOneProcess(t, c) })
		})
	}
}

// What is said of a server is what it does.
func testEtcdSettings(t *testing.T, c *etcdCluster) {
	set := c.settings
	members, err := c.client.MemberList(t.Context())
	if err != nil || len(members.Members) != set.nodes {
		t.Errorf("the members are %v, %v; want %d", members, err, set.nodes)
	}
	before, err := c.Usage(t.Context())
	must(t, err)
	fsyncs := c.counts.fsyncs // etcd does some when it makes its log, whatever it is told
	for range 3 {
		if _, err := c.client.Put(t.Context(), "key", "1"); err != nil {
			t.Fatal(err)
		}
	}
	after, err := c.Usage(t.Context())
	if used := after.since(before); err != nil || !used.known || used.calls["Put"] != 3 || used.commands != 3 {
		t.Errorf("the usage is %+v, %v", used, err)
	}
	if fsyncs = c.counts.fsyncs - fsyncs; (fsyncs > 0) == set.noFsync {
		t.Errorf("for three writes it synced %d times", fsyncs)
	}
	want := []string{"etcd 3.", "1 node,", "with fsync", "each on average"}
	if set.noFsync {
		want = []string{"3 nodes,", "without fsync"}
	}
	for _, words := range want {
		if !strings.Contains(c.About(), words) {
			t.Errorf("it is %q, want %q in it", c.About(), words)
		}
	}
}

// A measurement finds nothing of the one before.
func testEtcdFresh(t *testing.T, c *etcdCluster) {
	ctx := t.Context()
	put, err := c.client.Put(ctx, "key", "1")
	must(t, err)
	for range 2 { // also where there is nothing to remove
		if _, err := c.Fresh(ctx); err != nil {
			t.Fatal(err)
		}
	}
	left, err := c.client.Get(ctx, "\x00", clientv3.WithFromKey())
	if err != nil || len(left.Kvs) > 0 {
		t.Errorf("there is still %v, %v", left, err)
	}
	if past, err := c.client.Get(ctx, "key", clientv3.WithRev(put.Header.Revision)); !errors.Is(
		err,
		rpctypes.ErrCompacted,
	) {
		t.Errorf("of the past there is still %v, %v", past, err)
	}
}

// Locks of etcd keep processes apart, and cost what they cost: two calls, and two more for one that took so long that
// it was watched.
func testEtcdContestants(t *testing.T, c *etcdCluster) {
	lasts := 2 * time.Second // a disk may take its time
	if c.settings.noFsync {
		lasts = time.Second
	}
	testContestants(t, c, lasts, callLimits{2, 5, 50}, "raw-etcd", "holdfast-etcd", "concurrency")
}

// Two goroutines of one process never hold one name at once, whatever the recipe says.
func testRecipeInOneProcess(t *testing.T, c *etcdCluster) {
	where, err := c.Fresh(t.Context())
	must(t, err)
	l, err := onEtcd(newEtcdRecipe)(t.Context(), where, lockTTL)
	must(t, err)
	defer l.Close()
	first, err := l.Acquire(t.Context(), "name")
	must(t, err)
	other, err := l.Acquire(t.Context(), "other name")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := l.Acquire(ctx, "name"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second has it too: %v", err)
	}
	must(t, errors.Join(first.Release(), other.Release()))
	again, err := l.Acquire(t.Context(), "name")
	must(t, err)
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}

func TestEtcdUsage(t *testing.T) {
	series := func(name, method string) string { return name + `{grpc_method="` + method + `",grpc_type="unary"}` }
	node := map[string]float64{
		"process_cpu_seconds_total":                               1.25,
		series("grpc_server_msg_received_total", "Txn"):           1500,
		series("grpc_server_msg_received_total", "Watch"):         7,
		series("grpc_server_msg_sent_total", "Watch"):             900,
		series("grpc_server_started_total", "Txn"):                1500,
		`etcd_disk_wal_fsync_duration_seconds_bucket{le="0.001"}`: 3,
		"etcd_disk_wal_fsync_duration_seconds_sum":                0.02,
		"etcd_disk_wal_fsync_duration_seconds_count":              10,
	}
	counts := etcdCounts{usage: usage{calls: map[string]int64{}}}
	for range 2 { // of two nodes
		must(t, counts.add(node))
	}
	if counts.cpu != 2500*time.Millisecond || counts.commands != 3014 || counts.calls["Txn"] != 3000 ||
		counts.calls["Watch"] != 14 ||
		len(counts.calls) != 2 {
		t.Errorf("%+v", counts.usage)
	}
	c := etcdCluster{nodes: make([]*servers.EtcdServer, 2), ourOwn: ourOwn{version: "3"}, counts: counts}
	if want := "etcd 3, 2 nodes, on loopback, with fsync, as it comes: 2ms each on average"; c.About() != want {
		t.Errorf("it is %q, want %q", c.About(), want)
	}
	if err := counts.add(nil); err == nil {
		t.Error("a node that says nothing is believed")
	}
}

func TestNoEtcd(t *testing.T) {
	t.Setenv("HOLDFAST_ETCD", "no-such-etcd")
	if _, err := startEtcd(t.Context(), serverSettings{nodes: 1}); err == nil ||
		!strings.Contains(err.Error(), "make servers") {
		t.Errorf("%v does not say how to get it", err)
	}
}

// A start that fails, or that is stopped, leaves nothing, and says what the server said.
func TestEtcdThatDoesNotStart(t *testing.T) {
	servers.Need(t, "etcd")
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := startEtcd(ctx, serverSettings{nodes: 3}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	t.Setenv("ETCD_QUOTA_BACKEND_BYTES", "many")
	if _, err := startEtcd(t.Context(), serverSettings{nodes: 1}); err == nil ||
		!strings.Contains(err.Error(), "ended at once") {
		t.Errorf("%v, want that it ended at once", err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

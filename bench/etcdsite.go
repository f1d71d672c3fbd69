package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/internal/servers"
)

// An etcdCluster is an etcd of our own, of one node or of several. Nothing else is set but what serverSettings say.
type etcdCluster struct {
	ourOwn
	settings serverSettings
	nodes    []*servers.EtcdServer
	client   *clientv3.Client
	counts   etcdCounts // as of the last look
}

func startEtcd(ctx context.Context, set serverSettings) (site, error) {
	c := &etcdCluster{settings: set}
	return c.start(ctx, c, func(t testing.TB) error {
		fsync := servers.Args(fmt.Sprintf("--unsafe-no-fsync=%t", set.noFsync))
		cluster := servers.EtcdCluster(t, set.nodes, servers.OwnTimeouts(), fsync)
		c.nodes, c.client = cluster.Nodes, cluster.Client(t)
		status, err := c.client.Status(ctx, c.nodes[0].Addr())
		if err != nil {
			return err
		}
		c.version = status.Version
		return nil
	})
}

// Fresh removes all keys, and what etcd remembers of their past.
func (c *etcdCluster) Fresh(ctx context.Context) (string, error) {
	where := strings.Join(c.client.Endpoints(), ",")
	removed, err := c.client.Delete(ctx, "\x00", clientv3.WithFromKey())
	if err != nil {
		return where, err
	}
	_, err = c.client.Compact(ctx, removed.Header.Revision, clientv3.WithCompactPhysical())
	if errors.Is(err, rpctypes.ErrCompacted) {
		err = nil // nothing was written since the last time
	}
	return where, err
}

// etcdCounts are what the nodes of an etcd have done since they were started.
type etcdCounts struct {
	usage
	fsyncs   int64 // of the log, which every write waits for
	fsyncing time.Duration
}

// Usage adds up what the nodes say.
func (c *etcdCluster) Usage(context.Context) (usage, error) {
	counts := etcdCounts{usage: usage{known: true, calls: map[string]int64{}}}
	for _, n := range c.nodes {
		metrics, err := n.Metrics()
		if err == nil {
			err = counts.add(metrics)
		}
		if err != nil {
			return usage{}, err
		}
	}
	c.counts = counts
	return counts.usage, nil
}

// add adds a node's metrics.
func (c *etcdCounts) add(metrics map[string]float64) error {
	cpu, known := metrics["process_cpu_seconds_total"]
	if !known {
		return errors.New("etcd's metrics do not say how much processor time it has used")
	}
	c.cpu += seconds(cpu)
	for method, calls := range servers.EtcdCallsIn(metrics) {
		// Messages, and not calls: a Watch is one call for all that is ever watched, and each thing that is watched is
		// a message.
		c.calls[method] += int64(calls.Received)
		c.commands += int64(calls.Received)
	}
	c.fsyncs += int64(metrics["etcd_disk_wal_fsync_duration_seconds_count"])
	c.fsyncing += seconds(metrics["etcd_disk_wal_fsync_duration_seconds_sum"])
	return nil
}

// About also says how long an fsync took until the last look: etcd on a disk in memory is another one.
func (c *etcdCluster) About() string {
	about := fmt.Sprintf("etcd %s, %s, on loopback, ", c.version, plural(len(c.nodes), "node"))
	switch {
	case c.settings.noFsync:
		return about + "without fsync (--unsafe-no-fsync)"
	case c.counts.fsyncs == 0:
		return about + "with fsync, as it comes"
	default:
		each := c.counts.fsyncing / time.Duration(c.counts.fsyncs)
		return about + fmt.Sprintf("with fsync, as it comes: %v each on average", each.Round(time.Microsecond))
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// etcdCounts are what the nodes of an etcd have done since they were started.
type etcdCounts struct {
	usage
	fsyncs   int64 // of the log, which every write waits for
	fsyncing time.Duration
}

// Usage adds up what the nodes say.
func (c *etcdCluster) Usage(ctx context.Context) (usage, error) {
	counts := etcdCounts{usage: usage{known: true, calls: map[string]int64{}}}
	for _, n := range c.nodes {
		page, err := n.page(ctx, "/metrics")
		if err == nil {
			err = counts.add(page)
		}
		if err != nil {
			return usage{}, fmt.Errorf("%s: %w", n.name, err)
		}
	}
	c.counts = counts
	return counts.usage, nil
}

var etcdMethod = regexp.MustCompile(`[{,]grpc_method="(\w+)"`)

// add adds a node's page of metrics, in the text format of Prometheus.
func (c *etcdCounts) add(page string) error {
	cpuKnown := false
	for line := range strings.Lines(page) {
		series, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, _, _ := strings.Cut(series, "{")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue // a comment; a number that is none is missed below, or is not ours
		}
		switch name {
		case "process_cpu_seconds_total":
			c.cpu += seconds(value)
			cpuKnown = true
		case "grpc_server_msg_received_total":
			// Not calls: a Watch is one for all that is ever watched, and each thing that is watched is a message.
			if method := etcdMethod.FindStringSubmatch(series); method != nil {
				c.calls[method[1]] += int64(value)
				c.commands += int64(value)
			}
		case "etcd_disk_wal_fsync_duration_seconds_count":
			c.fsyncs += int64(value)
		case "etcd_disk_wal_fsync_duration_seconds_sum":
			c.fsyncing += seconds(value)
		}
	}
	if !cpuKnown {
		return errors.New("its metrics do not say how much processor time it has used")
	}
	return nil
}

// About also says how long an fsync took until the last look: etcd on a disk in memory is another one.
func (c *etcdCluster) About() string {
	nodes := "1 node"
	if c.settings.nodes > 1 {
		nodes = fmt.Sprintf("%d nodes", c.settings.nodes)
	}
	about := fmt.Sprintf("etcd %s, %s, on loopback, ", c.version, nodes)
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

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// How the groups are made up.
const (
	groupReplicas  = 2 // of the master that sentinels watch
	groupSentinels = 3
	groupQuorum    = "2"
	groupMasters   = 3 // of the cluster
	clusterSlots   = 16384
	masterName     = "bench" // by which the sentinels know the master
)

// A redisGroup is several redis-servers of our own that are one site.
type redisGroup struct {
	program   string
	dir       string
	masters   []*redisServer
	replicas  []*redisServer
	sentinels []*redisServer
	where     string
	madeOf    string
	prepare   func(context.Context) error // what servers need that were emptied, or nil
}

// startSentinel starts a master with replicas, and the sentinels that watch it.
func startSentinel(ctx context.Context, _ serverSettings) (site, error) {
	return startRedisGroup(ctx, (*redisGroup).formSentinel)
}

// startCluster starts a cluster of masters, each with its part of the slots.
func startCluster(ctx context.Context, _ serverSettings) (site, error) {
	return startRedisGroup(ctx, (*redisGroup).formCluster)
}

func startRedisGroup(ctx context.Context, form func(*redisGroup, context.Context) error) (site, error) {
	program, err := findRedis()
	if err != nil {
		return nil, err
	}
	return startServer(ctx, "redis-server", func(dir string) (site, error) {
		g := &redisGroup{program: program, dir: dir}
		if err := form(g, ctx); err != nil {
			g.end()
			return nil, err
		}
		return g, nil
	})
}

// join adds a server to some of the group's. Its folder is a new one: another may be left from an earlier try.
func (g *redisGroup) join(ctx context.Context, some *[]*redisServer, args ...string) (*redisServer, error) {
	dir, err := os.MkdirTemp(g.dir, "server-")
	if err != nil {
		return nil, err
	}
	s, err := startRedisServer(ctx, g.program, dir, args...)
	if err == nil {
		*some = append(*some, s)
	}
	return s, err
}

func (g *redisGroup) formSentinel(ctx context.Context) error {
	// A replica need not wait for others to come. That is about the start alone.
	master, err := g.join(ctx, &g.masters, append([]string{"--repl-diskless-sync-delay", "0"}, noPersistence...)...)
	if err != nil {
		return err
	}
	for range groupReplicas {
		if _, err := g.join(ctx, &g.replicas, append([]string{"--replicaof", "127.0.0.1", master.port}, noPersistence...)...); err != nil {
			return err
		}
	}
	for range groupSentinels {
		s, err := g.join(ctx, &g.sentinels, "--sentinel")
		if err != nil {
			return err
		}
		if err := s.do(ctx, "SENTINEL", "MONITOR", masterName, "127.0.0.1", master.port, groupQuorum); err != nil {
			return err
		}
	}
	if err := pollReady(ctx, master.proc, master.checkReplicas); err != nil {
		return err
	}
	for _, s := range g.sentinels {
		err := pollReady(ctx, s.proc, func(ctx context.Context) error { return s.do(ctx, "SENTINEL", "CKQUORUM", masterName) })
		if err != nil {
			return err
		}
	}
	g.where = addrsOf(g.sentinels) + "/" + masterName
	g.madeOf = fmt.Sprintf("a master with %d replicas, and %d sentinels", groupReplicas, groupSentinels)
	return nil
}

// checkReplicas demands that all replicas have what the master has.
func (s *redisServer) checkReplicas(ctx context.Context) error {
	info, err := s.info(ctx)
	if err != nil {
		return err
	}
	for i := range groupReplicas {
		if replica := info["slave"+strconv.Itoa(i)]; !strings.Contains(replica, "state=online") {
			return fmt.Errorf("replica %d is not in sync: %q", i, replica)
		}
	}
	return nil
}

func (g *redisGroup) formCluster(ctx context.Context) error {
	for i := range groupMasters {
		port, err := freePort() // on which the other nodes find it
		if err != nil {
			return err
		}
		bus := strconv.Itoa(port)
		node, err := g.join(ctx, &g.masters, append([]string{
			"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-announce-ip", "127.0.0.1",
		}, noPersistence...)...)
		if err != nil {
			return err
		}
		first, end := i*clusterSlots/groupMasters, (i+1)*clusterSlots/groupMasters
		err = errors.Join(
			node.do(ctx, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(end-1)),
			// With the same number, nodes would have to settle first who comes before whom.
			node.do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)))
		if err == nil && i > 0 {
			err = g.masters[0].do(ctx, "CLUSTER", "MEET", "127.0.0.1", node.port, bus)
		}
		if err != nil {
			return err
		}
	}
	for _, node := range g.masters {
		if err := pollReady(ctx, node.proc, node.checkCluster); err != nil {
			return err
		}
	}
	g.where = addrsOf(g.masters)
	g.madeOf = fmt.Sprintf("a cluster of %d masters", groupMasters)
	return nil
}

// checkCluster demands that the node knows all masters and serves.
func (s *redisServer) checkCluster(ctx context.Context) error {
	text, err := s.client.Do(ctx, s.client.B().ClusterInfo().Build()).ToString()
	if err != nil {
		return err
	}
	if info := parseInfo(text); info["cluster_state"] != "ok" || info["cluster_size"] != strconv.Itoa(groupMasters) {
		return fmt.Errorf("the cluster is not complete:\n%s", text)
	}
	return nil
}

func addrsOf(some []*redisServer) string {
	var addrs []string
	for _, s := range some {
		addrs = append(addrs, s.addr)
	}
	return strings.Join(addrs, ",")
}

// Fresh removes all keys.
func (g *redisGroup) Fresh(ctx context.Context) (string, error) {
	for _, m := range g.masters {
		if _, err := m.Fresh(ctx); err != nil {
			return g.where, err
		}
	}
	if g.prepare == nil {
		return g.where, nil
	}
	return g.where, g.prepare(ctx)
}

// Usage adds up the processor time of masters and replicas. Commands are those of the masters: a replica runs again
// what its master has run.
func (g *redisGroup) Usage(ctx context.Context) (usage, error) {
	sum := usage{known: true, calls: map[string]int64{}}
	for _, m := range g.masters {
		u, err := m.Usage(ctx)
		if err != nil {
			return usage{}, err
		}
		sum.cpu += u.cpu
		sum.commands += u.commands
		for command, n := range u.calls {
			sum.calls[command] += n
		}
	}
	for _, r := range g.replicas {
		u, err := r.Usage(ctx)
		if err != nil {
			return usage{}, err
		}
		sum.cpu += u.cpu
	}
	return sum, nil
}

func (g *redisGroup) About() string {
	return "redis-server " + g.masters[0].version + ", " + g.madeOf + ", no persistence, on loopback"
}

// all are the servers of the group, whatever they do.
func (g *redisGroup) all() []*redisServer { return slices.Concat(g.sentinels, g.replicas, g.masters) }

func (g *redisGroup) end() {
	for _, s := range g.all() {
		s.end()
	}
}

func (g *redisGroup) Close() error {
	g.end()
	return os.RemoveAll(g.dir)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/redlock"
)

const (
	sentinelReplicas   = 2 // of the master that sentinels watch
	independentMasters = 5 // for Redlock
)

// redisOptions are of all Redis servers: they keep nothing on their disk, and are otherwise as they come.
var redisOptions = []servers.Option{servers.Args("--appendonly", "no"), servers.OwnTimeouts()}

// redisServers are one Redis server or several that are one site.
type redisServers struct {
	masters  []*servers.RedisServer
	replicas []*servers.RedisServer
	where    string
	madeOf   string
	redlock  bool // Redlock has to let the masters vote
	ourOwn
}

// startRedis makes the start function of a kind of site, whose servers form starts.
func startRedis(form func(*redisServers, testing.TB)) func(context.Context, serverSettings) (site, error) {
	return func(ctx context.Context, _ serverSettings) (site, error) {
		s := &redisServers{}
		return s.start(ctx, s, func(t testing.TB) error {
			form(s, t)
			info, err := s.masters[0].Info("server")
			s.version = info["redis_version"]
			return err
		})
	}
}

// formAlone starts one server.
func (s *redisServers) formAlone(t testing.TB) {
	server := servers.Redis(t, redisOptions...)
	s.masters, s.where = []*servers.RedisServer{server}, server.Addr()
}

// formSentinel starts a master with replicas, and the sentinels that watch it.
func (s *redisServers) formSentinel(t testing.TB) {
	group := servers.RedisSentinel(t, redisOptions...)
	s.masters, s.replicas = group.Nodes[:1], group.Nodes[1:]
	s.where = strings.Join(group.Addrs(), ",") + "/" + group.MasterName
	s.madeOf = fmt.Sprintf(" a master with %d replicas, and %d sentinels,", len(s.replicas), len(group.Sentinels))
}

// formCluster starts a cluster of masters, each with its part of the slots.
func (s *redisServers) formCluster(t testing.TB) {
	cluster := servers.RedisCluster(t, slices.Concat(redisOptions, []servers.Option{servers.NoReplicas()})...)
	s.masters, s.where = cluster.Nodes, strings.Join(cluster.Addrs(), ",")
	s.madeOf = fmt.Sprintf(" a cluster of %d masters,", len(s.masters))
}

// formMasters starts masters that know nothing of each other.
func (s *redisServers) formMasters(t testing.TB) {
	var addrs []string
	for range independentMasters {
		server := servers.Redis(t, redisOptions...)
		s.masters, addrs = append(s.masters, server), append(addrs, server.Addr())
	}
	s.where = strings.Join(addrs, ",")
	s.madeOf = fmt.Sprintf(" %d independent masters,", independentMasters)
	s.redlock = true
}

// Fresh removes all keys.
func (s *redisServers) Fresh(ctx context.Context) (string, error) {
	for _, m := range s.masters {
		if _, err := m.Do("FLUSHALL", "SYNC"); err != nil {
			return s.where, err
		}
	}
	if s.redlock {
		return s.where, s.initRedlock(ctx)
	}
	return s.where, nil
}

// initRedlock lets all masters vote, as an operator does once. Without it those that were emptied have no vote for a
// minute.
func (s *redisServers) initRedlock(ctx context.Context) error {
	nodes, err := redlock.Init(ctx, "redlock://"+s.where)
	for _, node := range nodes {
		if err == nil && node.State != redlock.Voting {
			err = fmt.Errorf("%s does not vote: %v", node.Address, node.State)
		}
	}
	return err
}

// Usage adds up the processor time of masters and replicas. Commands are those of the masters: a replica runs again
// what its master has run.
func (s *redisServers) Usage(context.Context) (usage, error) {
	sum := usage{known: true, calls: map[string]int64{}}
	for i, server := range slices.Concat(s.masters, s.replicas) {
		info, err := server.Info("everything")
		if err != nil {
			return usage{}, err
		}
		u, err := usageFrom(info)
		if err != nil {
			return usage{}, err
		}
		sum.cpu += u.cpu
		if i >= len(s.masters) {
			continue
		}
		sum.commands += u.commands
		for command, n := range u.calls {
			sum.calls[command] += n
		}
	}
	return sum, nil
}

// usageFrom reads what a server says: it knows its processor time (getrusage) to the microsecond.
func usageFrom(info map[string]string) (u usage, err error) {
	for _, key := range []string{"used_cpu_user", "used_cpu_sys"} {
		value, err := strconv.ParseFloat(info[key], 64)
		if err != nil {
			return usage{}, fmt.Errorf("INFO: %s: %w", key, err)
		}
		u.cpu += seconds(value)
	}
	if u.commands, err = strconv.ParseInt(info["total_commands_processed"], 10, 64); err != nil {
		return usage{}, fmt.Errorf("INFO: total_commands_processed: %w", err)
	}
	u.calls = map[string]int64{}
	for key, value := range info {
		command, ok := strings.CutPrefix(key, "cmdstat_")
		if !ok {
			continue
		}
		var n int64
		if _, err := fmt.Sscanf(value, "calls=%d", &n); err != nil {
			return usage{}, fmt.Errorf("INFO: %s: %w", key, err)
		}
		u.calls[command] = n
	}
	u.known = true
	return u, nil
}

func (s *redisServers) About() string {
	return "redis-server " + s.version + "," + s.madeOf + " no persistence, on loopback"
}

// Pause makes the last of several masters stand still until resume is called.
func (s *redisServers) Pause() (resume func() error, err error) {
	if len(s.masters) == 1 {
		return nil, errNoPause
	}
	last := s.masters[len(s.masters)-1]
	return last.Continue, last.Pause()
}

// A pausable site has a node that can stand still while the others go on.
type pausable interface {
	Pause() (resume func() error, err error)
}

var errNoPause = errors.New("no node of this site can be paused")

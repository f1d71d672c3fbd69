package verify

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
)

// A site is a set of servers that verify started, and their faults.
type site struct {
	url    string
	faults []fault
	stop   func() error
}

// A SiteKind is a kind of servers that verify can start.
type SiteKind struct {
	Name, About string

	start func(t testing.TB, ttl time.Duration) site
}

// SiteKinds returns the kinds of servers that verify can start.
func SiteKinds() []SiteKind {
	return []SiteKind{
		{"redis", "one Redis server that saves before it answers (appendfsync always)", redisSite},
		{"redis-aof", "one Redis server that saves once a second, with startup-delay", redisGuardSite},
		{"sentinel", "a Redis master, two replicas that are waited for, and three sentinels", sentinelSite},
		{"cluster", "a Redis Cluster of three masters, each with a replica that is waited for", clusterSite},
		{"redlock", "five independent Redis masters", redlockSite},
		{"etcd", "three etcd servers", etcdSite},
		{"postgres", "one PostgreSQL server", postgresSite},
		{"mariadb", "one MariaDB server", mariadbSite},
		{"zookeeper", "three ZooKeeper servers", zookeeperSite},
		{"consul", "three Consul servers", consulSite},
	}
}

func siteKind(name string) (SiteKind, error) {
	var names []string
	for _, k := range SiteKinds() {
		if k.Name == name {
			return k, nil
		}
		names = append(names, k.Name)
	}
	return SiteKind{}, fmt.Errorf("holdfast: verify cannot start servers of the kind %q; it can start %s",
		name, strings.Join(names, ", "))
}

// startSite starts servers of a kind.
func startSite(ctx context.Context, name string, ttl time.Duration) (s site, err error) {
	kind, err := siteKind(name)
	if err != nil {
		return s, err
	}
	stop, err := servers.Outside(ctx, func(t testing.TB) { s = kind.start(t, ttl) })
	if err != nil {
		return s, fmt.Errorf("holdfast: verify: the servers do not start: %w", err)
	}
	s.stop = stop
	return s, nil
}

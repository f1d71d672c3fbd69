package broken

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/check"
)

// holdfastReplicas is Holdfast's lock on a master whose replica must have a grant before it counts.
func holdfastReplicas(p *part) (url string) {
	return fmt.Sprintf("redis://%s?ttl=%v&wait-replicas=1&wait-timeout=100ms", p.Addrs[0], p.TTL)
}

// holdfastGuarded is Holdfast's lock on a server that grants nothing for a ttl after it was started.
func holdfastGuarded(p *part) (url string) {
	return fmt.Sprintf("redis://%s?ttl=%v&startup-delay=%v", p.Addrs[0], p.TTL, p.TTL)
}

// hasReplica starts a master with a replica that has all of its data.
func (s *stage) hasReplica() *servers.RedisReplicaServers {
	var pair *servers.RedisReplicaServers
	s.starts(func(t testing.TB) { pair = servers.RedisReplicas(t, 1) })
	s.acknowledged(pair.Master)
	s.on(pair.Master.Addr())
	return pair
}

// acknowledged waits until the replica of a server has all that the server has written. WAIT is about what its own
// connection has written.
func (s *stage) acknowledged(master *servers.RedisServer) {
	conn, err := master.Dial()
	s.must(err)
	defer conn.Close() //nolint:errcheck // nothing is left to say
	_, err = conn.Do("SET", "lab-replicated", "yes")
	s.must(err)
	n, err := conn.Do("WAIT", "1", "15000")
	if err == nil && n != int64(1) {
		err = errors.New("the replica does not acknowledge")
	}
	s.must(err)
}

var asyncReplica = &Rung{
	Number: 8, Name: "async-replica",
	What:    "a lock on a master that is replicated asynchronously, and fails over to its replica",
	Seen:    "Redis with Sentinel, managed Redis, and every asynchronously replicated database",
	Promise: oneHolder, Rule: check.Exclusion,
	Story: "A gets the lock. The master dies before its replica has heard of it, the replica is promoted, and B gets " +
		"the same lock there.",
	Prevents: "With wait-replicas a grant counts only when the replicas have acknowledged it: A is never told that " +
		"it has a lock that a failover can lose. (Or a store that loses nothing: etcd, ZooKeeper, a synchronous " +
		"standby, Redlock.)",
	Store: "redis with wait-replicas", Needs: redisServer, Budget: 30 * time.Second,
	broken:   newRenewed,
	holdfast: holdfastReplicas,
	schedule: func(s *stage) {
		pair := s.hasReplica()
		a := s.enter("A")
		s.must(pair.Replicas[0].Lag())
		s.breaks("lag", "replica", "the replica falls behind")
		w := a.asks()
		w.grantedWrongly(s.millis(500, 800))
		old := pair.Master
		s.must(old.Kill())
		s.breaks(killed, "master", "kill -9 the master")
		s.must(pair.Promote(0))
		s.tell("", "the replica is promoted")
		s.must(old.Start())
		s.must(old.Follow(pair.Master))
		s.acknowledged(pair.Master)
		s.tell("", "the old master is back, as a replica of the new one")
		s.on(pair.Master.Addr())
		s.enter("B").locks()
	},
}

var splitBrain = &Rung{
	Number: 8, Name: "split-brain",
	What:    "a renewed lock on replicated servers that are split: the old master lives on with some of its clients",
	Seen:    "network partitions, and failovers triggered by a pause of the master",
	Promise: oneHolder, Rule: check.Exclusion,
	Story: "The replica is promoted while the old master lives and knows nothing of it. A renews at the old one. At " +
		"the new one A's lock expires, and B gets it. Both renew, for as long as the split lasts.",
	Prevents: "With wait-replicas a renewal counts only when the replicas have it. The old master has none any more: " +
		"A's lease is over before its ttl is over at the new master.",
	Store: "redis with wait-replicas", Needs: redisServer, Budget: 30 * time.Second,
	broken:   newRenewed,
	holdfast: holdfastReplicas,
	schedule: func(s *stage) {
		pair := s.hasReplica()
		short := s.millis(2000, 2400)
		a := s.enter("A", ttl(short))
		a.locks()
		s.acknowledged(pair.Master)
		old := pair.Master
		s.must(pair.Promote(0))
		healed := s.breaks("split", "master and replica", "the network is split: there are two masters now")
		s.on(pair.Master.Addr())
		w := s.enter("B").asks()
		w.grantedWrongly(2 * short)
		s.must(pause(s.ctx, s.millis(20, 60)))
		s.must(old.Follow(pair.Master))
		healed()
		s.tell("", "the split is healed: the old master follows the new one")
		w.granted()
	},
}

var lostTail = &Rung{
	Number: 9, Name: "lost-tail",
	What:    "a lock on a Redis with an append-only file that is synced every second, as it comes",
	Seen:    "a single Redis \"with persistence\"",
	Promise: oneHolder, Rule: check.Exclusion,
	Story: "A gets the lock. The power fails before the file is synced. The server is back at once with all that was " +
		"on disk, which A's lock was not, and B gets it.",
	Prevents: "With startup-delay, not below the longest ttl, nothing is granted for that long after a server was " +
		"started or has lost its data. By then whoever held before knows that it does not.",
	Store: "redis with startup-delay", Needs: redisServer, Budget: 30 * time.Second,
	broken:   overRedis(func(r *redis, p *part) lock { return punctual{newSetNXPX(r, p)} }),
	holdfast: holdfastGuarded,
	schedule: func(s *stage) {
		var server *servers.RedisServer
		s.starts(func(t testing.TB) { server = servers.Redis(t, servers.Args("--appendfsync", "everysec")) })
		s.on(server.Addr())
		long := ttl(10 * time.Second)
		if s.holdfast {
			long = ttl(3 * time.Second) // the guard lasts as long
		}
		a := s.enter("A", long)
		s.must(pause(s.ctx, s.millis(0, 100)))
		before := s.files(server)
		a.asks().granted()
		if s.holdfast { // the guard of a server that has just been started is over
			a.unlocks()
			before = s.files(server)
			a.locks()
		}
		s.breaks("power failure", "server", "the power fails: the last second of the append-only file is lost")
		s.must(server.Kill())
		for path, size := range before {
			s.must(os.Truncate(path, size))
		}
		s.must(server.Start())
		s.tell("", "the server is back")
		s.enter("B", long).locks()
	},
}

// files are the append-only files of a server, and how long they are.
func (s *stage) files(server *servers.RedisServer) map[string]int64 {
	paths, err := filepath.Glob(filepath.Join(server.Dir(), "data", "appendonlydir", "*.incr.aof"))
	s.must(err)
	sizes := map[string]int64{}
	for _, path := range paths {
		info, err := os.Stat(path)
		s.must(err)
		sizes[path] = info.Size()
	}
	if len(sizes) == 0 {
		s.must(errors.New("the server has no append-only file"))
	}
	return sizes
}

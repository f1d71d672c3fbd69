package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"
)

// How the sentinels are set up.
const (
	sentinelCount  = 3
	sentinelQuorum = 2
	watchedCount   = 3           // a master and two replicas
	downAfter      = time.Second // without a response
	// failoverTimeout is how many milliseconds a failover may take. After twice that, the sentinels try again.
	failoverTimeout = "2000"
	// askAgain is when a failover that came to nothing is asked for again: later than it may take.
	askAgain = 6 * time.Second
)

// sentinelPace makes sentinels look and talk as often as tests want, where ten seconds are usual. Only Redis' own
// debug command can say so, and it lasts until the sentinel ends.
var sentinelPace = []string{
	"SENTINEL", "DEBUG",
	// The first ping of a new master comes after this time, and its answer must come before downAfter. What a sentinel
	// knows of a replica is good for five times this, and it asks replicas of a dead master every second.
	"ping-period", "300",
	"info-period", "300", // while the master lives, what it knows of replicas is good for three of these
	"ask-period", "100",
	"publish-period", "200", // an old master that comes back is made a replica after four of these
	"tilt-period", "1000", // how long a sentinel does nothing after it was paused
}

// RedisSentinelServers are a Redis server, its replicas, and the sentinels that watch them and promote a replica when
// the master is down.
//
// Every server can be stopped, killed, paused and started again. An old master that comes back takes itself for the
// master until the sentinels tell it, within a second. If they are paused, they tell it nothing.
type RedisSentinelServers struct {
	MasterName string         // by which the sentinels know the master
	Nodes      []*RedisServer // the master and its replicas; the first was the master at the start
	Sentinels  []*RedisServer
}

// RedisSentinel starts a Redis server, two replicas and three sentinels, of whom two must agree that the master is
// down: a second after its last response, or [DownAfter]. When it returns, all of them know each other. The options are
// for the master and the replicas, and those of [TLS] and [SentinelPassword] for the sentinels too. A [Password] must
// have no spaces: a sentinel writes it down without quotes, and could not read it when it is started again.
func RedisSentinel(t testing.TB, options ...Option) *RedisSentinelServers {
	t.Helper()
	watched := RedisReplicas(t, watchedCount-1, options...)
	s := &RedisSentinelServers{
		MasterName: "holdfast",
		Nodes:      append([]*RedisServer{watched.Master}, watched.Replicas...),
	}
	set := watched.Master.set
	set = &settings{
		program: set.program, password: set.sentinelPassword, certificates: set.certificates,
		ownTimeouts: set.ownTimeouts,
	}
	for range sentinelCount {
		s.Sentinels = append(s.Sentinels, newSentinel(t, set))
	}
	must(t, s.firstStart())
	return s
}

// newSentinel returns a sentinel that is not started yet.
func newSentinel(t testing.TB, set *settings) *RedisServer {
	t.Helper()
	r := newRedisKind(t, set, 1, func(r *RedisServer) []string { return append(r.baseArgs(), "--sentinel") })
	if set.ownTimeouts {
		return r
	}
	r.ready = func() error {
		if err := r.checkReady(); err != nil {
			return err
		}
		_, err := r.Do(sentinelPace...)
		return err
	}
	return r
}

func (s *RedisSentinelServers) firstStart() error {
	err := each(s.Sentinels, func(r *RedisServer) error {
		if err := r.firstStart(); err != nil {
			return err
		}
		return r.failed("watch", s.watch(r))
	})
	if err != nil {
		return err
	}
	return s.AwaitHealthy()
}

// watch makes a sentinel watch the master. It writes down what it is told.
func (s *RedisSentinelServers) watch(sentinel *RedisServer) error {
	master := s.Nodes[0]
	set := func(names ...string) []string { return append([]string{"SENTINEL", "SET", s.MasterName}, names...) }
	commands := [][]string{{
		"SENTINEL", "MONITOR", s.MasterName, "127.0.0.1", strconv.Itoa(master.Port()), strconv.Itoa(sentinelQuorum),
	}}
	if !master.set.ownTimeouts {
		down := strconv.FormatInt(cmp.Or(master.set.downAfter, downAfter).Milliseconds(), 10)
		syncs := strconv.Itoa(watchedCount - 1)
		commands = append(commands, set("down-after-milliseconds", down),
			set("failover-timeout", failoverTimeout, "parallel-syncs", syncs))
	}
	if master.set.user != "" {
		commands = append(commands, set("auth-user", master.set.user))
	}
	if master.set.password != "" {
		commands = append(commands, set("auth-pass", master.set.password))
	}
	return sentinel.doAll(commands...)
}

// Addrs are the addresses of the sentinels, as host:port.
func (s *RedisSentinelServers) Addrs() []string { return addrsOf(s.Sentinels) }

// Master is the server that a majority of the sentinels names as the master, dead or alive. If they do not agree, it
// waits until they do.
func (s *RedisSentinelServers) Master() (*RedisServer, error) { return pollFor(s.masterNow) }

// masterNow returns the master that the sentinels agree on, or an error if they do not agree at present.
func (s *RedisSentinelServers) masterNow() (*RedisServer, error) {
	return agreed(s.Sentinels, s.Nodes, func(sentinel *RedisServer) (string, error) {
		answer, err := sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.MasterName)
		addr, _ := answer.([]any)
		if err == nil && len(addr) != 2 {
			err = fmt.Errorf("%s: no address but %v", sentinel.Addr(), answer)
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s:%s", addr...), nil
	})
}

// Failover has the sentinels promote a replica though the master lives, and returns the new master. The old one
// takes writes, which are lost, until the sentinels make it a replica: see [RedisSentinelServers.AwaitHealthy].
func (s *RedisSentinelServers) Failover() (master *RedisServer, err error) {
	old, err := s.Master()
	if err != nil {
		return nil, err
	}
	var asked time.Time
	return pollFor(func() (*RedisServer, error) {
		master, err := s.successor(old)
		if err != nil && time.Since(asked) > askAgain {
			asked, err = time.Now(), errors.Join(err, s.demandFailover())
		}
		return master, err
	})
}

// demandFailover asks one of the sentinels for a failover. It may come to nothing all the same: if it knows too little
// of the replicas at the moment, it gives up and nobody tries again.
func (s *RedisSentinelServers) demandFailover() error {
	var err error
	for _, sentinel := range s.Sentinels {
		_, failed := sentinel.ask("SENTINEL", "FAILOVER", s.MasterName)
		if failed == nil {
			return nil
		}
		err = errors.Join(err, failed)
	}
	return err
}

// AwaitFailover waits until a majority of the sentinels names another master than old, which takes itself for the
// master too, and returns it.
func (s *RedisSentinelServers) AwaitFailover(old *RedisServer) (*RedisServer, error) {
	return pollFor(func() (*RedisServer, error) { return s.successor(old) })
}

func (s *RedisSentinelServers) successor(old *RedisServer) (*RedisServer, error) {
	master, err := s.masterNow()
	if err != nil {
		return nil, err
	}
	if master == old {
		return nil, fmt.Errorf("%s is still the master", old.Addr())
	}
	if err := master.checkRole("master"); err != nil {
		return nil, err
	}
	return master, nil
}

// AwaitHealthy waits until every server that runs copies the master or is it, and every sentinel that runs knows all
// of them, and all other sentinels. Then the next failover can come.
func (s *RedisSentinelServers) AwaitHealthy() error {
	return poll(func(context.Context) error {
		master, err := s.masterNow()
		if err != nil {
			return err
		}
		err = each(s.Nodes, func(r *RedisServer) error {
			switch {
			case r == master:
				return r.checkRole("master")
			case r.Pid() == 0:
				return nil
			}
			return r.checkFollows(master)
		})
		if err != nil {
			return err
		}
		return each(running(s.Sentinels), func(r *RedisServer) error { return s.checkView(r, master) })
	})
}

// checkView demands that a sentinel watches the master, knows all who watch it with it, and would promote any of the
// replicas that run.
func (s *RedisSentinelServers) checkView(sentinel, master *RedisServer) error {
	answer, err := sentinel.ask("SENTINEL", "MASTER", s.MasterName)
	if err != nil {
		return err
	}
	view := pairs(answer)
	if view["port"] != strconv.Itoa(master.Port()) || view["flags"] != "master" ||
		view["num-other-sentinels"] != strconv.Itoa(len(s.Sentinels)-1) {
		return fmt.Errorf("sentinel %s sees the master as %v", sentinel.Addr(), view)
	}
	answer, err = sentinel.ask("SENTINEL", "REPLICAS", s.MasterName)
	if err != nil {
		return err
	}
	replicas, _ := answer.([]any)
	good := []string{view["port"]}
	for _, replica := range replicas {
		view := pairs(replica)
		if view["flags"] == "slave" && view["master-link-status"] == "ok" && view["master-port"] == good[0] {
			good = append(good, view["port"])
		}
	}
	for _, r := range running(s.Nodes) {
		if !slices.Contains(good, strconv.Itoa(r.Port())) {
			return fmt.Errorf("sentinel %s does not see %s in good health: %v", sentinel.Addr(), r.Addr(), replicas)
		}
	}
	return nil
}

// pairs makes a map of a response that is a list of names and values.
func pairs(answer any) map[string]string {
	list, _ := answer.([]any)
	m := map[string]string{}
	for pair := range slices.Chunk(list, 2) {
		if len(pair) == 2 {
			m[fmt.Sprint(pair[0])] = fmt.Sprint(pair[1])
		}
	}
	return m
}

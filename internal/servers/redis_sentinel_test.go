package servers

import (
	"slices"
	"testing"
)

// masterOf is the master, as the sentinels say.
func masterOf(t *testing.T, s *RedisSentinelServers) *RedisServer {
	t.Helper()
	master, err := s.Master()
	check(t, err)
	return master
}

func TestRedisSentinel(t *testing.T) {
	t.Parallel()
	s := RedisSentinel(t, Password("correct-horse"), SentinelPassword("battery-staple"))
	for _, r := range slices.Concat(s.Sentinels, s.Nodes) {
		refusesStrangers(t, r)
	}
	first := masterOf(t, s)
	write(t, first, "key", "1", "2", "15000")
	check(t, first.Kill())
	second, err := s.AwaitFailover(first)
	check(t, err)
	if second == first || second != masterOf(t, s) {
		t.Fatalf("%s is the master after %s", second.Addr(), first.Addr())
	}
	has(t, second, "key", "1")
	do(t, second, "SET", "key", "2")

	// A sentinel that comes back still watches, and an old master is made a replica.
	check(t, s.Sentinels[0].Restart(true))
	check(t, first.Start())
	check(t, s.AwaitHealthy())
	checkSoon(t, func() error { return first.checkFollows(second) })
	has(t, first, "key", "2")
	if masterOf(t, s) != second {
		t.Error("the old master leads again")
	}
}

// An old master that nobody tells otherwise lives on as a second one, and what it takes is lost.
func TestRedisSentinelSplit(t *testing.T) {
	t.Parallel()
	s := RedisSentinel(t)
	first := masterOf(t, s)
	check(t, first.Pause())
	second, err := s.AwaitFailover(first)
	check(t, err)
	check(t, each(s.Sentinels, func(r *RedisServer) error { return r.Pause() }))
	check(t, first.Continue())
	do(t, first, "SET", "key", "old")
	do(t, second, "SET", "key", "new")
	checkSoon(t, func() error {
		return each(s.Nodes, func(r *RedisServer) error {
			if r == first || r == second {
				return r.checkRole("master")
			}
			return r.checkRole("slave")
		})
	})
	check(t, each(s.Sentinels, func(r *RedisServer) error { return r.Continue() }))
	check(t, s.AwaitHealthy())
	has(t, first, "key", "new")
}

func TestRedisSentinelForced(t *testing.T) {
	t.Parallel()
	s := RedisSentinel(t, TLS(NewCertificates(t)), ACL("user default off"))
	first := masterOf(t, s)
	second, err := s.Failover()
	check(t, err)
	if second == first || first.Pid() == 0 {
		t.Errorf("%s is the master after %s, which has process %d", second.Addr(), first.Addr(), first.Pid())
	}
	check(t, s.AwaitHealthy())
	checkSoon(t, func() error { return first.checkFollows(second) })
}

// A master that is none of ours is nobody.
func TestRedisSentinelStranger(t *testing.T) {
	ours, stranger, sentinel := Redis(t), Redis(t), newSentinel(t, settingsOf(nil))
	check(t, sentinel.firstStart())
	s := &RedisSentinelServers{MasterName: "holdfast", Nodes: []*RedisServer{ours}, Sentinels: []*RedisServer{sentinel}}
	check(t, s.watch(sentinel))
	if master, err := s.Master(); master != ours {
		t.Errorf("the master is not the one that is watched: %v", err)
	}
	s.Nodes[0] = stranger
	if _, err := s.masterNow(); err == nil {
		t.Error("the master is one that the sentinel never named")
	}
}

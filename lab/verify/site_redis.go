package verify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/redlock"
)

// newClock makes a clock for servers, where that is possible: there must be a C compiler.
func newClock(t testing.TB) (*servers.Clock, []servers.Option) {
	if _, err := exec.LookPath("cc"); err != nil || runtime.GOOS != "linux" {
		return nil, nil
	}
	c := servers.NewClock(t)
	return c, []servers.Option{servers.Env(c.Env()...)}
}

func redisSite(t testing.TB, _ time.Duration) site {
	clock, options := newClock(t)
	r := servers.Redis(t, append(options, servers.Args("--appendfsync", "always"))...)
	faults := append(redisFaults(r),
		restart{
			name: "server-loses-data", about: "the server is killed with -9 and comes back without its data",
			beyond: "without startup-delay, holders of before believe for up to a ttl", choose: one(r),
			between: node.LoseData,
		}.fault())
	return site{url: "redis://" + r.Addr(), faults: append(faults, clockSteps(clock, r.Addr())...)}
}

func redisGuardSite(t testing.TB, ttl time.Duration) site {
	r := servers.Redis(t, servers.Args("--appendfsync", "everysec"))
	faults := append(redisFaults(r),
		restart{
			name: "server-loses-data", about: "the server is killed with -9 and comes back without its data",
			choose: one(r), between: node.LoseData,
		}.fault(),
		restart{
			name: "server-loses-tail", about: "the server is killed with -9, and the end of its append-only file is " +
				"lost",
			choose: one(r), between: cutTail,
		}.fault())
	return site{url: fmt.Sprintf("redis://%s?startup-delay=%v", r.Addr(), ttl), faults: faults}
}

// redisFaults are those that every way of running one server survives.
func redisFaults(r *servers.RedisServer) []fault {
	return append(serverFaults(r, nil),
		command("client-kill", "the server ends all connections", r.Addr(), func(context.Context) (string, error) {
			proof := ""
			for _, kind := range []string{"normal", "pubsub"} {
				n, err := r.Do("CLIENT", "KILL", "TYPE", kind)
				if err != nil {
					return "", err
				}
				proof = join(proof, fmt.Sprintf("%v of the kind %s", n, kind))
			}
			return proof, nil
		}),
		command("script-flush", "the server forgets all scripts", r.Addr(), func(context.Context) (string, error) {
			says, err := r.Do("SCRIPT", "FLUSH")
			return fmt.Sprint(says), err
		}),
	)
}

// tail is how much of an append-only file is lost: some claims.
const tail = 2 << 10

// cutTail removes the end of the newest append-only file of a server that is down, as a loss of power does.
func cutTail(n node) error {
	dir := n.(*servers.RedisServer).Dir()
	var newest string
	var size int64
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".incr.aof") {
			return err
		}
		info, err := entry.Info()
		if err == nil && path > newest {
			newest, size = path, info.Size()
		}
		return err
	})
	if err != nil || newest == "" {
		return errors.Join(err, errors.New("there is no append-only file"))
	}
	return os.Truncate(newest, max(0, size-tail))
}

// A replicated is a set of servers in which a replica takes the place of a master that is down.
type replicated interface {
	AwaitFailover(old *servers.RedisServer) (heir *servers.RedisServer, err error)
	AwaitHealthy() error
}

// masterKill returns a fault that kills a master and starts it again when judges, such as the sentinels, name another.
func masterKill(
	r replicated, about, judges string, choose func(which int) (*servers.RedisServer, error),
) fault {
	strike := func(_ context.Context, _ *stage, with Strike) (target, proof string, err error) {
		old, err := choose(with.Which)
		if err != nil {
			return "", "", err
		}
		if err := old.Kill(); err != nil {
			return "", "", err
		}
		heir, err := r.AwaitFailover(old)
		if err != nil {
			return "", "", err
		}
		err = errors.Join(old.Start(), r.AwaitHealthy())
		return old.Addr(), judges + " name " + heir.Addr(), err
	}
	return fault{name: "master-kill", about: about, lasts: moment, strike: strike}
}

// promotion returns a fault that makes a replica take the place of a master that lives.
func promotion(
	r replicated, about, target, judges string, promote func() (heir *servers.RedisServer, err error),
) fault {
	return command("failover", about, target, func(context.Context) (string, error) {
		heir, err := promote()
		if err != nil {
			return "", err
		}
		return judges + " name " + heir.Addr(), r.AwaitHealthy()
	})
}

func sentinelSite(t testing.TB, _ time.Duration) site {
	s := servers.RedisSentinel(t)
	master := the(s.Master)
	return site{
		url: fmt.Sprintf("redis+sentinel://%s/%s?wait-replicas=2", strings.Join(s.Addrs(), ","), s.MasterName),
		faults: []fault{
			masterKill(s, "the master is killed with -9, a replica takes its place, and it comes back", "the sentinels",
				func(int) (*servers.RedisServer, error) { return s.Master() }),
			promotion(s, "the sentinels promote a replica though the master lives", "the master", "the sentinels",
				s.Failover),
			stopped("master-stop", "the master stands still", master, s.AwaitHealthy),
			{
				name: "split", about: "a replica is promoted, and the old master lives on and is not told",
				lasts: anyTime, strike: split(s),
			},
		},
	}
}

// split has the sentinels promote a replica while the master stands still, and keeps them from telling it when it goes
// on.
func split(s *servers.RedisSentinelServers) strikeFunc {
	return func(ctx context.Context, _ *stage, with Strike) (target, proof string, err error) {
		old, err := s.Master()
		if err != nil {
			return "", "", err
		}
		if err := old.Pause(); err != nil {
			return "", "", err
		}
		heir, err := s.AwaitFailover(old)
		for _, sentinel := range s.Sentinels {
			err = errors.Join(err, sentinel.Pause())
		}
		err = errors.Join(err, old.Continue(), sleep(ctx, with.For))
		for _, sentinel := range s.Sentinels {
			err = errors.Join(err, sentinel.Continue())
		}
		if err := errors.Join(err, s.AwaitHealthy()); err != nil {
			return "", "", err
		}
		return old.Addr(), "beside it there was " + heir.Addr(), nil
	}
}

func clusterSite(t testing.TB, _ time.Duration) site {
	c := servers.RedisCluster(t)
	masterOf := func() (*servers.RedisServer, error) { return c.MasterOf("holdfast") }
	return site{
		url: fmt.Sprintf("redis+cluster://%s?wait-replicas=1", strings.Join(c.Addrs(), ",")),
		faults: []fault{
			masterKill(c, "a master is killed with -9, its replica takes its place, and it comes back", "the nodes",
				func(which int) (*servers.RedisServer, error) { return c.MasterOf(fmt.Sprint("key ", which)) }),
			promotion(c, "a replica takes the place of its master, which lives", "a master", "the nodes",
				func() (*servers.RedisServer, error) {
					old, err := masterOf()
					if err != nil {
						return nil, err
					}
					return c.Failover(old)
				}),
			stopped("master-stop", "a master stands still", the(masterOf), c.AwaitHealthy),
		},
	}
}

const redlockNodes = 5

func redlockSite(t testing.TB, ttl time.Duration) site {
	clock, options := newClock(t)
	var nodes []*servers.RedisServer
	var addresses []string
	for range redlockNodes {
		r := servers.Redis(t, append(options, servers.Args("--appendfsync", "always"))...)
		nodes, addresses = append(nodes, r), append(addresses, r.Addr())
	}
	url := fmt.Sprintf("redlock://%s?max-ttl=%v&node-timeout=500ms", strings.Join(addresses, ","), 2*ttl)
	if _, err := redlock.Init(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	vote := func() error { return allVote(url) }
	return site{url: url, faults: append(clockSteps(clock, "all nodes"),
		restart{
			name: "node-loses-data", about: "a node is killed with -9 and comes back without its data, and so " +
				"without a vote",
			choose: some(1, nodes), between: node.LoseData, healthy: vote,
		}.fault(),
		restart{
			name: "minority-kill", about: "a minority is killed with -9 and started again",
			choose: some(redlockNodes/2, nodes), healthy: vote,
		}.fault(),
		stopped("minority-stop", "a minority stands still", some(redlockNodes/2, nodes), vote),
		stopped("majority-stop", "a majority stands still", some(redlockNodes/2+1, nodes), vote),
	)}
}

// allVote waits until all nodes vote. One that was restarted does not for a while.
func allVote(url string) error {
	return awaitHealth(func(ctx context.Context) error {
		nodes, err := redlock.Status(ctx, url)
		silent := func(n redlock.NodeHealth) bool { return n.State != redlock.Voting }
		if err == nil && slices.ContainsFunc(nodes, silent) {
			err = errors.New("not all nodes vote again")
		}
		return err
	})
}

package servers

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// maxLag is when Redis ends a lag by itself. No test takes as long.
const maxLag = time.Hour

// RedisReplicaServers are a Redis server and those that copy it.
type RedisReplicaServers struct {
	Master   *RedisServer
	Replicas []*RedisServer
}

// RedisReplicas starts a Redis server and n replicas of it. All of them are in sync when it returns. The options are
// for every server.
func RedisReplicas(t testing.TB, n int, options ...Option) *RedisReplicaServers {
	t.Helper()
	set := settingsOf(options)
	r := &RedisReplicaServers{Master: newRedis(t, set)}
	for range n {
		r.Replicas = append(r.Replicas, newRedis(t, set))
	}
	must(t, r.firstStart())
	return r
}

// firstStart starts all servers, each on free ports. Nobody knows anybody's port before it is in use.
func (r *RedisReplicaServers) firstStart() error {
	all := append(slices.Clone(r.Replicas), r.Master)
	if err := each(all, func(s *RedisServer) error { return s.firstStart() }); err != nil {
		return err
	}
	return each(r.Replicas, func(s *RedisServer) error { return s.Follow(r.Master) })
}

// Addrs are the addresses of all servers, as host:port. The master's is the first.
func (r *RedisReplicaServers) Addrs() []string {
	return append([]string{r.Master.Addr()}, addrsOf(r.Replicas)...)
}

// Promote makes the replica of this index the master, and the others that run its replicas, as an operator does who
// takes the old master for dead. The old one takes its place in Replicas, but is told nothing: if it still runs, there
// are two masters from now on. [RedisServer.Follow] makes it a replica.
//
// A replica that lags is promoted as it is. What it had not applied is lost.
func (r *RedisReplicaServers) Promote(i int) error {
	promoted := r.Replicas[i]
	if err := promoted.replicaOf("NO", "ONE"); err != nil {
		return promoted.failed("promote", err)
	}
	followers := slices.DeleteFunc(running(r.Replicas), func(s *RedisServer) bool { return s == promoted })
	r.Master, r.Replicas[i] = promoted, r.Master
	return each(followers, func(s *RedisServer) error { return s.Follow(promoted) })
}

// Follow makes it a replica of master, and waits until it is in sync. It stays one when it is started again.
func (r *RedisServer) Follow(master *RedisServer) error {
	err := r.replicaOf("127.0.0.1", strconv.Itoa(master.Port()))
	if err == nil {
		err = poll(func(context.Context) error { return r.checkFollows(master) })
	}
	return r.failed("follow", err)
}

// replicaOf sets which master it copies from now on, and ends its lag. That comes last, or it would catch up with its
// old master first.
func (r *RedisServer) replicaOf(host, port string) error {
	return r.doAll([]string{"REPLICAOF", host, port}, []string{"CONFIG", "REWRITE"}, []string{"CLIENT", "UNPAUSE"})
}

// checkFollows demands that both sides say that it copies master: it has received all that the master had when they
// met, and its acknowledgements count.
func (r *RedisServer) checkFollows(master *RedisServer) error {
	mine, err := r.replication()
	if err != nil {
		return err
	}
	if mine["master_port"] != strconv.Itoa(master.Port()) || mine["master_link_status"] != "up" {
		return fmt.Errorf("%s is a %s of port %s with its link %s, and no replica of %s",
			r.Addr(), mine["role"], mine["master_port"], mine["master_link_status"], master.Addr())
	}
	masters, err := master.replication()
	if err != nil {
		return err
	}
	online := fmt.Sprintf(",port=%d,state=online,", r.Port())
	for name, replica := range masters {
		if strings.HasPrefix(name, "slave") && strings.Contains(replica, online) {
			return nil
		}
	}
	return fmt.Errorf("%s does not count on its replica %s yet", master.Addr(), r.Addr())
}

// checkRole demands that it takes itself for a master, or for a slave.
func (r *RedisServer) checkRole(role string) error {
	mine, err := r.replication()
	if err == nil && mine["role"] != role {
		err = fmt.Errorf("%s is a %s, and no %s", r.Addr(), mine["role"], role)
	}
	return err
}

// replication returns what it reports about its master and its replicas.
func (r *RedisServer) replication() (map[string]string, error) {
	answer, err := r.ask("INFO", "replication")
	return parseFields(fmt.Sprint(answer), ":"), err
}

// Lag makes a replica receive what its master writes, and neither apply nor acknowledge it. Its master does not wait
// for it. What the master writes after Lag has returned is not on the replica before CatchUp, and never if the replica
// is promoted first. It still responds to reads, and makes writes and publishes wait. A sentinel
// publishes, and so takes it for down.
//
// Follow, [RedisReplicaServers.Promote] and a new start end a lag too. Whoever else promotes the replica, as a cluster
// does, has it serve no writes before CatchUp. If it loses its connection to the master, a new one may bring it up to
// date.
func (r *RedisServer) Lag() error {
	_, err := r.Do("CLIENT", "PAUSE", strconv.FormatInt(maxLag.Milliseconds(), 10), "WRITE")
	return r.failed("lag", err)
}

// CatchUp ends a Lag. The replica applies what it has received, soon after.
func (r *RedisServer) CatchUp() error {
	_, err := r.Do("CLIENT", "UNPAUSE")
	return r.failed("catch up", err)
}

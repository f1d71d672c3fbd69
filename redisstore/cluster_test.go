package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// clusterURL is the URL of a cluster.
func clusterURL(c *servers.RedisClusterServers) string {
	return "redis+cluster://" + strings.Join(c.Addrs(), ",")
}

func TestStoreInCluster(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness { return newClusterFleet(t) })
}

// newClusterFleet starts a cluster. Where the suite restarts the server, each master gives way to its replica, and the
// first time one is killed before. Where it takes a claim away behind the store's back, the slot has just been moved to
// another node.
func newClusterFleet(t testing.TB, options ...servers.Option) *fleet {
	t.Helper()
	c := servers.RedisCluster(t, options...)
	killed := false
	return &fleet{
		move:   func(key string) error { return moveSlot(c, key, nil) },
		url:    clusterURL(c),
		nodes:  c.Nodes,
		master: c.MasterOf,
		restart: func(keepData bool) error {
			if keepData && !killed {
				killed = true
				if err := killMaster(c, c.Nodes[0]); err != nil {
					return err
				}
			}
			if keepData {
				return giveWay(c, masters(t, c))
			}
			for _, master := range masters(t, c) {
				if _, err := master.Do("FLUSHALL"); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// masters are the nodes that keep slots.
func masters(t testing.TB, c *servers.RedisClusterServers) (masters []*servers.RedisServer) {
	t.Helper()
	for _, n := range c.Nodes {
		if answer, err := n.Do("ROLE"); err == nil && answer.([]any)[0] == "master" {
			masters = append(masters, n)
		}
	}
	return masters
}

// killMaster kills a master, and starts it again when its replica has taken its place.
func killMaster(c *servers.RedisClusterServers, old *servers.RedisServer) error {
	if err := old.Kill(); err != nil {
		return err
	}
	if _, err := c.AwaitFailover(old); err != nil {
		return err
	}
	if err := old.Start(); err != nil {
		return err
	}
	return c.AwaitHealthy()
}

// moveSlot moves the slot of a key to another master.
func moveSlot(c *servers.RedisClusterServers, key string, between func(int)) error {
	slot, err := c.KeySlot(key)
	if err != nil {
		return err
	}
	from, err := c.MasterOf(key)
	if err != nil {
		return err
	}
	for _, to := range c.Nodes {
		if answer, err := to.Do("ROLE"); err == nil && to != from && answer.([]any)[0] == "master" {
			return c.MigrateSlot(slot, from, to, between)
		}
	}
	return errors.New("there is no other master")
}

// giveWay makes each master's replica the master.
func giveWay(c *servers.RedisClusterServers, masters []*servers.RedisServer) error {
	if err := c.AwaitHealthy(); err != nil {
		return err
	}
	for _, master := range masters {
		if _, err := c.Failover(master); err != nil {
			return err
		}
	}
	return c.AwaitHealthy()
}

// A name in each third of the slots.
func spreadNames(t testing.TB, c *servers.RedisClusterServers) (names []string) {
	t.Helper()
	seen := map[*servers.RedisServer]bool{}
	for i := 0; len(names) < 3; i++ {
		name := fmt.Sprint("spread ", i)
		master, err := c.MasterOf(redisstore.KeysOf("", name)[0])
		if err != nil {
			t.Fatal(err)
		}
		if !seen[master] {
			seen[master] = true
			names = append(names, name)
		}
	}
	return names
}

// withoutFullCoverage lets masters serve while the slots of another are not. Otherwise they refuse until each has heard of the
// failover.
var withoutFullCoverage = servers.Args("--cluster-require-full-coverage", "no")

// A master is killed, and its replica promoted. Claims that were replicated stand, who waits there is told, and the
// tickets rise. The other masters do not notice.
func TestClusterMasterKilled(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t, withoutFullCoverage)
	s := openAt(t, clusterURL(c))
	told := make(chan store.ID, 1000)
	s.Notify(func(id store.ID, _ store.Standing) { told <- id })
	names := spreadNames(t, c)
	holders, waiters := make([]store.Claim, 3), make([]store.Claim, 3)
	for i, name := range names {
		holders[i], waiters[i] = claim(name), claim(name)
		join(t, s, &holders[i], store.Held)
		join(t, s, &waiters[i], store.Waiting)
	}
	old, err := c.MasterOf(redisstore.KeysOf("", names[0])[0])
	if err != nil {
		t.Fatal(err)
	}
	replicated(t, old)
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		keep(t, s, holders[i+1], store.Held)
	}
	if _, err := c.AwaitFailover(old); err != nil {
		t.Fatal(err)
	}
	await(t, "the new master is found", func() bool {
		standings, err := s.Keep(t.Context(), holders)
		return err == nil && standings[0].Err == nil
	})
	keep(t, s, holders[0], store.Held)
	keep(t, s, waiters[0], store.Waiting)
	for len(told) > 0 {
		<-told
	}
	leave(t, s, holders[0])
	awaitTold(t, told, waiters[0].ID, "who waits is told by the new master")
	keep(t, s, waiters[0], store.Held)
	next := claim(names[0])
	join(t, s, &next, store.Waiting)
	if next.Ticket <= waiters[0].Ticket+1_000_000 {
		t.Errorf("the new master has given ticket %d after %d: it does not know what was lost", next.Ticket, waiters[0].Ticket)
	}
}

// replicated waits until a master's replica has all that was written there.
func replicated(t testing.TB, master *servers.RedisServer) {
	t.Helper()
	field := func(info, name string) string {
		_, rest, _ := strings.Cut(info, name)
		value, _, _ := strings.Cut(rest, ",")
		value, _, _ = strings.Cut(value, "\r")
		return value
	}
	await(t, "the replica has it all", func() bool {
		info := do(t, master, "INFO", "replication")
		return field(info, "master_repl_offset:") == field(info, ",offset=")
	})
}

// A slot is moved to another node while claims stand in it: whatever is asked waits until that is over. Nobody is let in
// beside a claim whose keys are on their way.
func TestSlotIsMoved(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t)
	s := openAt(t, clusterURL(c))
	told := make(chan store.ID, 1000)
	s.Notify(func(id store.ID, _ store.Standing) { told <- id })
	const name = "moved"
	key := redisstore.KeysOf("", name)[0]
	holder, waiter := claim(name), claim(name)
	join(t, s, &holder, store.Held)
	join(t, s, &waiter, store.Waiting)
	for range 2 { // there and back again
		moved := 0
		err := moveSlot(c, key, func(int) {
			moved++
			c := claim(name)
			c.Try, c.TTL = true, ttl
			short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if standing, err := s.Join(short, c); err == nil && standing.State != store.Gone {
				t.Errorf("when %d keys were moved, another was let in: %v", moved-1, standing.State)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if moved < 5 {
			t.Errorf("%d keys were moved, want those of the line, the mark and the run", moved-1)
		}
		keep(t, s, holder, store.Held)
		keep(t, s, waiter, store.Waiting)
		awaitTold(t, told, store.Everyone, "everyone is told to ask")
		keep(t, s, waiter, store.Waiting)
	}
	leave(t, s, holder)
	awaitTold(t, told, waiter.ID, "who waits is told by the new node")
	keep(t, s, waiter, store.Held)
	works(t, s)
}

// Slots go from node to node while clients take turns.
func TestSlotsAreMovedUnderLoad(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t)
	key := redisstore.KeysOf("", "contended")[0]
	takeTurns(t, clusterURL(c), func() {
		if err := moveSlot(c, key, nil); err != nil {
			t.Error(err)
		}
	})
}

// Names are those of all masters.
func TestNamesOfAllMasters(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t)
	s := openAt(t, clusterURL(c)+"?prefix=p")
	want := map[string]bool{}
	for i := range 300 {
		c := claim(fmt.Sprint("name ", i))
		want[c.Name] = true
		join(t, s, &c, store.Held)
	}
	for name, err := range s.Names(t.Context(), "name ") {
		if err != nil || !want[name] {
			t.Fatalf("%q and %v", name, err)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("%d names are missing: %v", len(want), want)
	}
	if keys := do(t, masters(t, c)[0], "KEYS", "*"); strings.Count(keys, ":mark:p") == 0 {
		t.Errorf("no mark of a slot among %s", keys)
	}
}

func TestClusterFaults(t *testing.T) {
	t.Parallel()
	certificates := servers.NewCertificates(t)
	guarded := servers.RedisCluster(t, servers.TLS(certificates), servers.Password("open"))
	plain := servers.Redis(t)
	at := strings.Join(guarded.Addrs(), ",") + "?ca=" + certificates.CAFile
	works(t, openAt(t, "rediss+cluster://:open@"+at))
	checkFault(t, refusal(t, "rediss+cluster://:secret@"+at), true, "this user and password")
	checkFault(t, openError(t, "redis+cluster://"+plain.Addr()), true, "it is no node of a cluster")
	checkFault(t, openError(t, "rediss://:open@"+guarded.Nodes[0].Addr()+"?ca="+certificates.CAFile), true, "redis+cluster://")
	works(t, openAt(t, "rediss+cluster://:open@"+guarded.Nodes[3].Addr()+"?ca="+certificates.CAFile)) // a replica knows as much
	for url, says := range map[string]string{
		"redis+cluster://":               "redis+cluster://h1",
		"redis+cluster://a/1":            "no databases",
		"redis+cluster://a?db=1":         "unknown parameter",
		"redis+cluster://a?wait-timeout": "goes with wait-replicas",
	} {
		if _, err := tryOpen(t, url); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, which does not say %q", url, err, says)
		}
	}
}

// A client of the program's own, for a cluster. It stays its owner's.
func TestNewInCluster(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: c.Addrs()[:1]})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s, err := redisstore.New(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	works(t, s)
	for _, name := range spreadNames(t, c) {
		holder, waiter := claim(name), claim(name)
		join(t, s, &holder, store.Held)
		join(t, s, &waiter, store.Waiting)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := client.Do(t.Context(), client.B().Get().Key("x").Build()).Error(); err != nil && !rueidis.IsRedisNil(err) {
		t.Errorf("the client was closed with the store: %v", err)
	}
}

// WaitReplicas in a cluster: the master of the slot waits for its own replica.
func TestWaitReplicasInCluster(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t)
	s := openAt(t, clusterURL(c)+"?wait-replicas=1&wait-timeout=3s")
	works(t, s)
	holder := claim("waited for")
	join(t, s, &holder, store.Held)
	master, err := c.MasterOf(redisstore.KeysOf("", holder.Name)[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := master.Kill(); err != nil { // nothing is lost that counted
		t.Fatal(err)
	}
	if _, err := c.AwaitFailover(master); err != nil {
		t.Fatal(err)
	}
	lacking := func(err error) bool { return err != nil && strings.Contains(err.Error(), "0 of 1 replicas") }
	await(t, "the new master is found, and has no replica", func() bool {
		_, err := s.Keep(t.Context(), []store.Claim{holder})
		return lacking(err)
	})
	line, err := s.Line(t.Context(), holder.Name)
	if err != nil || len(line.Places) != 1 || line.Places[0].ID != holder.ID {
		t.Errorf("the new master has the line %+v and %v, want the holder of before", line, err)
	}
}

// The smallest ACL is that of a single server, with the keys and channels of slots.
func TestSmallestACLInCluster(t *testing.T) {
	t.Parallel()
	const prefix = "tenant"
	acl := "user me on >secret resetkeys ~holdfast:{tenant|* ~holdfast:{tenant}:id ~holdfast:{*}:mark:tenant ~holdfast:{*}:run:tenant " +
		"resetchannels &holdfast:{*}:push:tenant:* -@all +ping +info +time +cluster|nodes +cluster|slots +ssubscribe +spublish +eval +evalsha +scan " +
		"+get +getrange +set +incr +del +exists +pexpire +pexpireat +pttl +hget +hset +hdel +zadd +zrem +zrank +zrange " +
		"+zrangebyscore +zscore +zcard"
	c := servers.RedisCluster(t)
	for _, n := range c.Nodes {
		do(t, n, append([]string{"ACL", "SETUSER"}, strings.Fields(acl)[1:]...)...)
	}
	url := strings.Replace(clusterURL(c), "://", "://me:secret@", 1)
	works(t, openAt(t, url+"?prefix="+prefix))
	probed := 0
	for _, n := range c.Nodes {
		if got := do(t, n, "ACL", "LOG"); got != "[]" {
			t.Errorf("the server refused: %s", got)
		}
		if do(t, n, "SCRIPT", "EXISTS", redisstore.ProbeName) == "[1]" {
			probed++
		}
	}
	if probed == 0 {
		t.Error("no node was asked whether it will do")
	}
	checkFault(t, openError(t, url+"?prefix=other"), true, "lacks a permission")
	for _, n := range c.Nodes { // whoever may not be told learns it when he waits
		do(t, n, "ACL", "SETUSER", "me", "-spublish")
	}
	s := openAt(t, url+"?prefix="+prefix)
	holder := claim("untold")
	join(t, s, &holder, store.Held)
	_, err := s.Join(t.Context(), claim("untold"))
	checkFault(t, err, true, "lacks a permission")
}

// Marks are lost with the rest when a master dies before its replica has them. The tickets of its slots rise all the same,
// and so does the first that is drawn after it.
func TestTicketsRiseInCluster(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t)
	s := openAt(t, clusterURL(c))
	last := draw(t, s)
	old, err := c.MasterOf(redisstore.KeysOf("", "draw")[0])
	if err != nil {
		t.Fatal(err)
	}
	replicated(t, old)
	replica, err := c.ReplicaOf(old)
	if err != nil {
		t.Fatal(err)
	}
	if err := replica.Lag(); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		last = draw(t, s)
	}
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AwaitFailover(old); err != nil {
		t.Fatal(err)
	}
	if err := replica.CatchUp(); err != nil {
		t.Fatal(err)
	}
	var next store.Claim
	await(t, "the new master is found", func() bool {
		next = claim("draw")
		standing, err := s.Join(t.Context(), next)
		next.Ticket = standing.Ticket
		return err == nil
	})
	if next.Ticket <= last {
		t.Errorf("after the failover the ticket is %d, and before it was %d", next.Ticket, last)
	}
}

// A node that hangs and does not die holds nobody up who asks the others, and is left when its replica takes its place.
func TestClusterMasterHangs(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t, withoutFullCoverage)
	s := openAt(t, clusterURL(c))
	names := spreadNames(t, c)
	old, err := c.MasterOf(redisstore.KeysOf("", names[0])[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Pause(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AwaitFailover(old); err != nil {
		t.Fatal(err)
	}
	for _, name := range names[1:] {
		holder := claim(name)
		join(t, s, &holder, store.Held)
	}
	await(t, "the new master is found", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Join(ctx, claim(names[0]))
		return err == nil
	})
}

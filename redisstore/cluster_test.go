package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
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
	storetest.Run(t, func(t testing.TB) storetest.Harness { return newClusterHarness(t) })
}

// newClusterHarness starts a cluster. Where the suite restarts the server, each master gives way to its replica, and
// the first time one is killed before. Where it takes a claim away behind the store's back, the slot has just been
// moved to another node.
func newClusterHarness(t testing.TB, options ...servers.Option) *harness {
	t.Helper()
	c := servers.RedisCluster(t, options...)
	killed := false
	return &harness{
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

// failOver kills a master and waits until its replica has taken its place.
func failOver(t testing.TB, c *servers.RedisClusterServers, master *servers.RedisServer) {
	t.Helper()
	testkit.Must(t, master.Kill())
	_, err := c.AwaitFailover(master)
	testkit.Must(t, err)
}

// A name in each third of the slots.
func spreadNames(t testing.TB, c *servers.RedisClusterServers) (names []string) {
	t.Helper()
	seen := map[*servers.RedisServer]bool{}
	for i := 0; len(names) < 3; i++ {
		name := fmt.Sprint("spread ", i)
		master, err := c.MasterOf(redisstore.KeysOf("", name)[0])
		testkit.Must(t, err)
		if !seen[master] {
			seen[master] = true
			names = append(names, name)
		}
	}
	return names
}

// withoutFullCoverage lets masters serve while the slots of another are not. Otherwise they refuse until each has heard
// of the failover.
var withoutFullCoverage = servers.Args("--cluster-require-full-coverage", "no")

// A master is killed, and its replica promoted. Claims that were replicated stand, who waits there is told, and the
// tickets rise. The other masters do not notice.
func TestClusterMasterKilled(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t, withoutFullCoverage)
	s := openAt(t, clusterURL(c))
	told := testkit.Listen(s)
	names := spreadNames(t, c)
	holders, waiters := make([]store.Claim, 3), make([]store.Claim, 3)
	for i, name := range names {
		holders[i], waiters[i] = claim(name), claim(name)
		testkit.Join(t, s, &holders[i], store.Held)
		testkit.Join(t, s, &waiters[i], store.Waiting)
	}
	old := keeperOf(t, c, names[0])
	replicated(t, old)
	testkit.Must(t, old.Kill())
	for i := range 2 {
		testkit.Keep(t, s, holders[i+1], store.Held)
	}
	_, err := c.AwaitFailover(old)
	testkit.Must(t, err)
	testkit.Await(t, "the new master is found", func() bool {
		standings, err := s.Keep(t.Context(), holders)
		return err == nil && standings[0].Err == nil
	})
	testkit.Keep(t, s, holders[0], store.Held)
	testkit.Keep(t, s, waiters[0], store.Waiting)
	for len(told) > 0 {
		<-told
	}
	testkit.Leave(t, s, holders[0])
	testkit.AwaitTold(t, told, waiters[0].ID, "who waits is told by the new master")
	testkit.Keep(t, s, waiters[0], store.Held)
	next := testkit.Waiting(t, s, claim(names[0]))
	if next.Ticket <= waiters[0].Ticket+1_000_000 {
		t.Errorf("the new master has given ticket %d after %d: it does not know what was lost", next.Ticket,
			waiters[0].Ticket)
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
	testkit.Await(t, "the replica has it all", func() bool {
		info := do(t, master, "INFO", "replication")
		return field(info, "master_repl_offset:") == field(info, ",offset=")
	})
}

// A slot is moved to another node while claims stand in it: whatever is asked waits until that is over. Nobody is let
// in beside a claim whose keys are on their way.
func TestSlotIsMoved(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t)
	s := openAt(t, clusterURL(c))
	told := testkit.Listen(s)
	const name = "moved"
	key := redisstore.KeysOf("", name)[0]
	holder, waiter := testkit.Held(t, s, claim(name)), testkit.Waiting(t, s, claim(name))
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
		testkit.Must(t, err)
		if moved < 5 {
			t.Errorf("%d keys were moved, want those of the line, the mark and the run", moved-1)
		}
		testkit.Keep(t, s, holder, store.Held)
		testkit.Keep(t, s, waiter, store.Waiting)
		testkit.AwaitTold(t, told, store.Everyone, "everyone is told to ask")
		testkit.Keep(t, s, waiter, store.Waiting)
	}
	testkit.Leave(t, s, holder)
	testkit.AwaitTold(t, told, waiter.ID, "who waits is told by the new node")
	testkit.Keep(t, s, waiter, store.Held)
	testkit.CheckWorks(t, s)
}

// Slots go from node to node while clients take turns.
func TestSlotsAreMovedUnderLoad(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t)
	key := redisstore.KeysOf("", "contended")[0]
	takeTurns(t, clusterURL(c), func() {
		testkit.Check(t, moveSlot(c, key, nil))
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
		testkit.Join(t, s, &c, store.Held)
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
	testkit.CheckWorks(t, openAt(t, "rediss+cluster://:open@"+at))
	checkFault(t, refusal(t, "rediss+cluster://:secret@"+at), true, "this user and password")
	checkFault(t, openError(t, "redis+cluster://"+plain.Addr()), true, "it is no node of a cluster")
	checkFault(t, openError(t, "rediss://:open@"+guarded.Nodes[0].Addr()+"?ca="+certificates.CAFile), true,
		"redis+cluster://")
	// A replica knows as much.
	testkit.CheckWorks(t, openAt(t, "rediss+cluster://:open@"+guarded.Nodes[3].Addr()+"?ca="+certificates.CAFile))
	testkit.RefuseURLs(t, map[string]string{
		"redis+cluster://":               "redis+cluster://h1",
		"redis+cluster://a/1":            "no databases",
		"redis+cluster://a?db=1":         "unknown parameter",
		"redis+cluster://a?wait-timeout": "goes with wait-replicas",
	})
}

// A client of the program's own, for a cluster. It stays its owner's.
func TestNewInCluster(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t)
	client := handIn(t, c.Addrs()[:1]...)
	s := newOf(t, client)
	testkit.CheckWorks(t, s)
	for _, name := range spreadNames(t, c) {
		testkit.Held(t, s, claim(name))
		testkit.Waiting(t, s, claim(name))
	}
	testkit.Check(t, s.Close())
	if err := client.Do(t.Context(), client.B().Get().Key("x").Build()).Error(); err != nil &&
		!rueidis.IsRedisNil(err) {
		t.Errorf("the client was closed with the store: %v", err)
	}
}

// WaitReplicas in a cluster: the master of the slot waits for its own replica.
func TestWaitReplicasInCluster(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t)
	s := openAt(t, clusterURL(c)+"?wait-replicas=1&wait-timeout=3s")
	testkit.CheckWorks(t, s)
	holder := testkit.Held(t, s, claim("waited for"))
	master := keeperOf(t, c, holder.Name)
	if err := master.Kill(); err != nil { // nothing is lost that counted
		t.Fatal(err)
	}
	_, err := c.AwaitFailover(master)
	testkit.Must(t, err)
	lacking := func(err error) bool { return err != nil && strings.Contains(err.Error(), "0 of 1 replicas") }
	testkit.Await(t, "the new master is found, and has no replica", func() bool {
		_, err := s.Keep(t.Context(), []store.Claim{holder})
		return lacking(err)
	})
	line, err := s.Queue(t.Context(), holder.Name)
	if err != nil || len(line.Entries) != 1 || line.Entries[0].ID != holder.ID {
		t.Errorf("the new master has the line %+v and %v, want the holder of before", line, err)
	}
}

// TestArrivalBehindAWait: a Join waits for a replica that lags, for longer than a silent connection is kept. A second
// one, in a slot of the same master that the client has not used yet, is given up meanwhile. That must not end the
// connection, and with it the first.
func TestArrivalBehindAWait(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t)
	s := openAt(t, clusterURL(c)+"?wait-replicas=1&wait-timeout=1m")
	first := testkit.Held(t, s, testkit.Claim("first", time.Minute))
	testkit.Leave(t, s, first)
	master := keeperOf(t, c, first.Name)
	replica, err := c.ReplicaOf(master)
	testkit.Must(t, err)
	testkit.Must(t, replica.Lag())
	patient := testkit.Claim(first.Name, time.Minute)
	joined := make(chan error, 1)
	go func() {
		standing, err := s.Join(t.Context(), patient)
		if err == nil && standing.State != store.Held {
			err = fmt.Errorf("it is %v", standing.State)
		}
		joined <- err
	}()
	testkit.Await(t, "the first is there", func() bool {
		line, err := s.Queue(t.Context(), first.Name)
		return err == nil && len(line.Entries) == 1
	})
	hasty := testkit.Claim("second", time.Minute)
	for keeperOf(t, c, hasty.Name) != master {
		hasty.Name += "+"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := s.Join(ctx, hasty); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second: %v", err)
	}
	select {
	case err := <-joined:
		t.Errorf("the first, while the replica lags: %v", err)
	case <-time.After(rediswire.SilenceWithin + time.Second):
		testkit.Must(t, replica.CatchUp())
		testkit.Check(t, <-joined)
	}
}

// The smallest ACL is that of a single server, with the keys and channels of slots.
func TestSmallestACLInCluster(t *testing.T) {
	t.Parallel()
	const prefix = "tenant"
	acl := "user me on >secret resetkeys ~holdfast:{tenant|* ~holdfast:{tenant}:id ~holdfast:{*}:mark:tenant " +
		"~holdfast:{*}:run:tenant " +
		"resetchannels &holdfast:{*}:push:tenant:* -@all +ping +info +time +cluster|nodes +cluster|slots " +
		"+ssubscribe +spublish +eval +evalsha +scan " +
		"+get +getrange +set +incr +del +exists +pexpire +pexpireat +pttl +hget +hset +hdel +zadd +zrem +zrank " +
		"+zrange " +
		"+zrangebyscore +zscore +zcard"
	c := servers.RedisCluster(t)
	for _, n := range c.Nodes {
		do(t, n, append([]string{"ACL", "SETUSER"}, strings.Fields(acl)[1:]...)...)
	}
	url := strings.Replace(clusterURL(c), "://", "://me:secret@", 1)
	testkit.CheckWorks(t, openAt(t, url+"?prefix="+prefix))
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
		t.Error("no node was asked whether it is suitable")
	}
	checkFault(t, openError(t, url+"?prefix=other"), true, "lacks a permission")
	for _, n := range c.Nodes { // whoever may not be told learns it when he waits
		do(t, n, "ACL", "SETUSER", "me", "-spublish")
	}
	s := openAt(t, url+"?prefix="+prefix)
	testkit.Held(t, s, claim("untold"))
	_, err := s.Join(t.Context(), claim("untold"))
	checkFault(t, err, true, "lacks a permission")
}

// Marks are lost with the rest when a master dies before its replica has them. The tickets of its slots rise all the
// same, and so does the first that is drawn after it.
func TestTicketsRiseInCluster(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t)
	s := openAt(t, clusterURL(c))
	last := draw(t, s)
	old := keeperOf(t, c, "draw")
	replicated(t, old)
	replica, err := c.ReplicaOf(old)
	testkit.Must(t, err)
	testkit.Must(t, replica.Lag())
	for range 10 {
		last = draw(t, s)
	}
	failOver(t, c, old)
	testkit.Must(t, replica.CatchUp())
	var next store.Claim
	testkit.Await(t, "the new master is found", func() bool {
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
	old := keeperOf(t, c, names[0])
	testkit.Must(t, old.Pause())
	_, err := c.AwaitFailover(old)
	testkit.Must(t, err)
	for _, name := range names[1:] {
		testkit.Held(t, s, claim(name))
	}
	testkit.Await(t, "the new master is found", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Join(ctx, claim(names[0]))
		return err == nil
	})
}

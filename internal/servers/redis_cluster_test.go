package servers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// holderOf is the node that serves a key.
func holderOf(t *testing.T, c *RedisClusterServers, key string) *RedisServer {
	t.Helper()
	master, err := c.MasterOf(key)
	check(t, err)
	return master
}

// served is what a node answers to a command, also if that is no.
func served(r *RedisServer, args ...string) string {
	answer, err := r.Do(args...)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(answer)
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	c := RedisCluster(t)
	holders := map[*RedisServer]bool{}
	for _, key := range []string{"a", "b", "c"} {
		holder := holderOf(t, c, key)
		holders[holder] = true
		do(t, holder, "SET", key, "1")
	}
	if len(holders) != clusterMasters {
		t.Errorf("%d nodes serve three keys of three thirds", len(holders))
	}

	old := holderOf(t, c, "a")
	replica, err := c.ReplicaOf(old)
	check(t, err)
	checkSoon(t, func() error { return replica.checkFollows(old) })
	write(t, old, "a", "2", "1", "15000")
	check(t, old.Kill())
	promoted, err := c.AwaitFailover(old)
	check(t, err)
	if promoted != replica || holderOf(t, c, "a") != replica {
		t.Fatalf("%s took over from %s, whose replica was %s", promoted.Addr(), old.Addr(), replica.Addr())
	}
	has(t, promoted, "a", "2")

	// Also without its data it is the same node, and the one that copies the other now.
	check(t, old.LoseData())
	check(t, old.Start())
	check(t, c.AwaitHealthy())
	replica, err = c.ReplicaOf(promoted)
	check(t, err)
	if replica != old {
		t.Errorf("%s copies the new master, want %s", replica.Addr(), old.Addr())
	}
	if got := do(t, old, "DBSIZE"); got != "1" {
		t.Errorf("the old master has %s keys, want the one of the new master", got)
	}
}

// Two nodes change their roles again and again, faster than Redis thinks of.
func TestRedisClusterFailover(t *testing.T) {
	t.Parallel()
	c := RedisCluster(t)
	master := holderOf(t, c, "a")
	for i := range 4 {
		value := fmt.Sprint(i)
		do(t, master, "SET", "a", value)
		heir, err := c.Failover(master)
		check(t, err)
		if heir == master || holderOf(t, c, "a") != heir {
			t.Fatalf("%s is to have taken over from %s", heir.Addr(), master.Addr())
		}
		has(t, heir, "a", value)
		check(t, c.AwaitHealthy())
		master = heir
	}
}

func TestRedisClusterMigrateSlot(t *testing.T) {
	t.Parallel()
	c := RedisCluster(t, TLS(NewCertificates(t)), ACL("user default off"))
	from, to := holderOf(t, c, "{a}"), holderOf(t, c, "{b}")
	slot, err := c.KeySlot("{a}")
	check(t, err)
	do(t, from, "MSET", "{a}1", "1", "{a}2", "2")

	var steps []int
	check(t, c.MigrateSlot(slot, from, to, func(moved int) {
		steps = append(steps, moved)
		ask := fmt.Sprintf("ASK %d %s", slot, to.Addr())
		both := map[int]string{0: "[1 2]", 1: "TRYAGAIN Multiple keys request during rehashing of slot", 2: ask}
		if got := served(from, "MGET", "{a}1", "{a}2"); got != both[moved] {
			t.Errorf("with %d keys moved, both are %s", moved, got)
		}
		if got := served(from, "GET", "{a}3"); got != ask {
			t.Errorf("with %d keys moved, a new one is %s", moved, got)
		}
		if got := served(to, "GET", "{a}1"); got != fmt.Sprintf("MOVED %d %s", slot, from.Addr()) {
			t.Errorf("with %d keys moved, the new node says %s without ASKING", moved, got)
		}
	}))
	if !slices.Equal(steps, []int{0, 1, 2}) {
		t.Errorf("the steps were %v", steps)
	}
	for _, node := range c.Nodes {
		if node != to {
			if got, want := served(node, "GET", "{a}1"), fmt.Sprintf("MOVED %d %s", slot, to.Addr()); got != want {
				t.Errorf("%s says %s, want %s", node.Addr(), got, want)
			}
		}
	}
	has(t, to, "{a}2", "2")
	check(t, c.AwaitHealthy())
	if holderOf(t, c, "{a}") != to {
		t.Errorf("%s does not serve its new slot", to.Addr())
	}
	check(t, c.MigrateSlot(slot, to, from, nil))
	has(t, from, "{a}2", "2")
	if err := c.MigrateSlot(slot, to, from, nil); err == nil {
		t.Error("a node gave away a slot that it does not have")
	}
}

func TestClusterView(t *testing.T) {
	nodes, err := parseNodes(strings.Join([]string{
		"id1 127.0.0.1:1@11 myself,master - 0 0 1 connected 0-99 102 [7->-id2] [8-<-id3]",
		"id2 127.0.0.1:2@12 master - 0 0 2 connected 100-101 103-16383",
		"id3 127.0.0.1:3@13,host slave id1 0 0 1 connected",
		"id4 127.0.0.1:4@14 slave,fail? id2 0 0 2 connected",
		"id5 127.0.0.1:5@15 slave id2 0 0 2 disconnected",
		"id6 127.0.0.1:6@16 handshake - 0 0 0 connected\n",
	}, "\n"))
	check(t, err)
	view := clusterView{nodes: nodes}
	var alive []string
	for _, addr := range slices.Sorted(maps.Keys(nodes)) {
		if nodes[addr].alive {
			alive = append(alive, addr)
		}
	}
	if want := []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}; !slices.Equal(alive, want) {
		t.Errorf("%v are alive, want %v", alive, want)
	}
	for slot, want := range map[int]string{
		0: "127.0.0.1:1", 99: "127.0.0.1:1", 100: "127.0.0.1:2", 101: "127.0.0.1:2",
		102: "127.0.0.1:1", 103: "127.0.0.1:2", 16383: "127.0.0.1:2", 16384: "",
	} {
		if got := view.owner(slot); got != want {
			t.Errorf("slot %d is at %q, want %q", slot, got, want)
		}
	}
	if got, want := nodes["127.0.0.1:1"].slots, []string{"0-99", "102"}; !slices.Equal(got, want) {
		t.Errorf("it has the slots %v, want %v", got, want)
	}
	for master, want := range map[string]string{"127.0.0.1:1": "127.0.0.1:3", "127.0.0.1:2": ""} {
		if got := view.replicaOf(master); got != want {
			t.Errorf("the replica of %s is %q, want %q", master, got, want)
		}
	}
	if _, err := parseNodes("id1 127.0.0.1:1@11 master"); err == nil {
		t.Error("half a line counts as a node")
	}
}

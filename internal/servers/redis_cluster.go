package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

const (
	clusterMasters = 3
	clusterSlots   = 16384
	nodeTimeout    = 1500 * time.Millisecond // after its last response, a node counts as down
)

// RedisClusterServers are the nodes of one Redis cluster. At the start the first three are masters, and each of the
// others is the replica of the one three before it. The two stay together and may change their roles.
//
// Every node can be stopped, killed, paused and started again. One that loses its data is still the same node.
type RedisClusterServers struct {
	Nodes    []*RedisServer
	promoted sync.Map // from each *RedisServer that took the place of its master, the time.Time when that was seen
}

// RedisCluster starts a Redis cluster of three masters, each with a third of the slots and one replica. All slots are
// served and all replicas in sync when it returns. The options are for every node. A node counts as down 1.5 seconds
// after its last response.
func RedisCluster(t testing.TB, options ...Option) *RedisClusterServers {
	t.Helper()
	set := settingsOf(options)
	c := &RedisClusterServers{}
	nodes := 2 * clusterMasters
	if set.noReplicas {
		nodes = clusterMasters
	}
	for range nodes {
		c.Nodes = append(c.Nodes, newClusterNode(t, set))
	}
	must(t, c.firstStart())
	return c
}

// newClusterNode returns a node that is not started yet.
func newClusterNode(t testing.TB, set *settings) *RedisServer {
	t.Helper()
	return newRedisKind(t, set, 2, (*RedisServer).clusterArgs)
}

// clusterArgs are for a node, whose second port is for the other nodes.
func (r *RedisServer) clusterArgs() []string {
	args := append(r.storeArgs(),
		"--cluster-enabled", "yes",
		"--cluster-config-file", r.dir+"/nodes.conf", // not among its data: it must not lose its identity
		"--cluster-announce-ip", "127.0.0.1",
		"--cluster-port", strconv.Itoa(r.ports[1]),
		"--cluster-allow-replica-migration", "no", // the tests decide which node copies which
	)
	if !r.set.ownTimeouts {
		args = append(args, "--cluster-node-timeout", strconv.FormatInt(nodeTimeout.Milliseconds(), 10))
	}
	if r.set.certificates != nil {
		args = append(args, "--tls-cluster", "yes")
	}
	return args
}

// firstStart starts all nodes, each on free ports, and joins them to one cluster. Nobody knows anybody's port before
// it is in use.
func (c *RedisClusterServers) firstStart() error {
	if err := each(c.Nodes, func(r *RedisServer) error { return r.firstStart() }); err != nil {
		return err
	}
	for i, node := range slices.Backward(c.Nodes) { // a node that knows another takes no number any more
		if err := c.join(i); err != nil {
			return node.failed("join", err)
		}
	}
	if _, err := pollFor(c.commonView); err != nil {
		return err
	}
	for i, node := range c.Nodes[clusterMasters:] {
		if err := c.replicate(node, c.Nodes[i]); err != nil {
			return node.failed("replicate", err)
		}
	}
	return c.AwaitHealthy()
}

// join introduces a node to those after it, and gives it its slots if it is a master.
func (c *RedisClusterServers) join(i int) error {
	// A number of its own for each: two nodes with the same would have to settle first who comes before whom.
	commands := [][]string{{"CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i + 1)}}
	if i < clusterMasters {
		first, end := i*clusterSlots/clusterMasters, (i+1)*clusterSlots/clusterMasters
		slots := []string{"CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(end - 1)}
		commands = append(commands, slots)
	}
	for _, other := range c.Nodes[i+1:] {
		meet := []string{"CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(other.Port()), strconv.Itoa(other.ports[1])}
		commands = append(commands, meet)
	}
	return c.Nodes[i].doAll(commands...)
}

// replicate makes a node the replica of a master.
func (c *RedisClusterServers) replicate(replica, master *RedisServer) error {
	id, err := master.clusterID()
	if err != nil {
		return err
	}
	_, err = replica.Do("CLUSTER", "REPLICATE", id)
	return err
}

// Addrs are the addresses of all nodes, as host:port.
func (c *RedisClusterServers) Addrs() []string { return addrsOf(c.Nodes) }

// KeySlot is the slot of a key, as the first node says that answers.
func (c *RedisClusterServers) KeySlot(key string) (slot int, err error) {
	return pollFor(func() (slot int, err error) {
		for _, node := range c.Nodes {
			var answer any
			if answer, err = node.ask("CLUSTER", "KEYSLOT", key); err == nil {
				return strconv.Atoi(fmt.Sprint(answer))
			}
		}
		return 0, err
	})
}

// MasterOf is the node that serves a key, dead or alive, as most nodes say. If they do not agree, it waits until they
// do.
func (c *RedisClusterServers) MasterOf(key string) (master *RedisServer, err error) {
	slot, err := c.KeySlot(key)
	if err != nil {
		return nil, err
	}
	return c.named(func(view clusterView) string { return view.owner(slot) })
}

// ReplicaOf is the replica of a master, as most nodes say. If they do not agree, or take it for down, it waits until
// that has changed.
func (c *RedisClusterServers) ReplicaOf(master *RedisServer) (*RedisServer, error) {
	return c.named(func(view clusterView) string { return view.replicaOf(master.Addr()) })
}

// votesLast is how long a replica counts the votes for an election. If it is asked to take over twice within that time,
// it takes itself for the master by the votes of the first time, until it hears that nobody else does: what it was told
// meanwhile is lost.
const votesLast = 4*nodeTimeout + time.Second

// Failover has the replica of a master take its place though it lives, with all that was written, and returns it. One
// that has done so a few seconds ago is given the time that it needs. It is asked again if it comes to nothing, for
// Redis gives up without a word when the two do not agree in time.
func (c *RedisClusterServers) Failover(master *RedisServer) (replica *RedisServer, err error) {
	if replica, err = c.ReplicaOf(master); err != nil {
		return nil, err
	}
	c.promoted.LoadOrStore(master, time.Now()) // that was now at the latest
	if last, ok := c.promoted.Load(replica); ok {
		time.Sleep(time.Until(last.(time.Time).Add(votesLast)))
	}
	var asked time.Time
	err = poll(func(context.Context) error {
		_, err := c.heirNow(master)
		if err != nil && time.Since(asked) > askAgain {
			asked = time.Now()
			_, failed := replica.ask("CLUSTER", "FAILOVER")
			err = errors.Join(err, failed)
		}
		return err
	})
	return replica, err
}

// AwaitFailover waits until most nodes say that the old master's replica is the master now, and that all slots are
// served, and returns it.
func (c *RedisClusterServers) AwaitFailover(old *RedisServer) (heir *RedisServer, err error) {
	return pollFor(func() (*RedisServer, error) { return c.heirNow(old) })
}

// heirNow is the one that has taken the place of a master, and it is noted when that was.
func (c *RedisClusterServers) heirNow(master *RedisServer) (*RedisServer, error) {
	partner := c.Nodes[(slices.Index(c.Nodes, master)+clusterMasters)%len(c.Nodes)]
	heir, err := c.namedNow(func(view clusterView) string {
		if node := view.nodes[partner.Addr()]; view.ok && len(node.slots) > 0 {
			return partner.Addr()
		}
		return ""
	})
	if err == nil {
		c.promoted.Store(heir, time.Now())
	}
	return heir, err
}

// named waits until more than half of all nodes name the same one by its address.
func (c *RedisClusterServers) named(name func(clusterView) (addr string)) (*RedisServer, error) {
	return pollFor(func() (*RedisServer, error) { return c.namedNow(name) })
}

func (c *RedisClusterServers) namedNow(name func(clusterView) (addr string)) (*RedisServer, error) {
	return agreed(c.Nodes, c.Nodes, func(r *RedisServer) (string, error) {
		view, err := r.clusterView()
		return name(view), err
	})
}

// AwaitHealthy waits until all nodes that run see the same cluster, in which all slots are served, and every one of
// them serves some or copies who does, and is in sync.
func (c *RedisClusterServers) AwaitHealthy() error {
	return poll(func(context.Context) error {
		view, err := c.commonView()
		if err != nil {
			return err
		}
		if !view.ok {
			return fmt.Errorf("not all slots are served: %s", view.roles())
		}
		return each(running(c.Nodes), func(r *RedisServer) error {
			seen := view.nodes[r.Addr()]
			for _, master := range c.Nodes {
				if master.Addr() == seen.master {
					return r.checkFollows(master)
				}
			}
			if len(seen.slots) == 0 { // it has come back, and does not know yet who has taken its place
				return fmt.Errorf("%s has no slots, and copies nobody", r.Addr())
			}
			return nil
		})
	})
}

// commonView is how all nodes that run see the cluster. They must know all nodes, take those that run for alive, and
// agree on roles and slots.
func (c *RedisClusterServers) commonView() (common clusterView, err error) {
	for i, node := range running(c.Nodes) {
		view, err := node.clusterView()
		if err != nil {
			return common, err
		}
		for _, other := range c.Nodes {
			seen, known := view.nodes[other.Addr()]
			if !known || other.Pid() != 0 && !seen.alive {
				return common, fmt.Errorf("%s does not see that %s is alive: %+v", node.Addr(), other.Addr(),
					view.nodes)
			}
		}
		if i == 0 {
			common = view
		}
		if view.roles() != common.roles() {
			return common, fmt.Errorf("two nodes see different roles:\n%s\n%s", common.roles(), view.roles())
		}
		common.ok = common.ok && view.ok
	}
	return common, nil
}

// clusterID returns the ID of the node in its cluster.
func (r *RedisServer) clusterID() (string, error) {
	id, err := r.Do("CLUSTER", "MYID")
	return fmt.Sprint(id), err
}

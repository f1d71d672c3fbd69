package servers

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// leaderOfZooKeeper is the leader, which must not be one of these.
func leaderOfZooKeeper(t *testing.T, c *ZooKeeperServers, not ...*ZooKeeperServer) *ZooKeeperServer {
	t.Helper()
	leader, err := c.Leader()
	check(t, err)
	if slices.Contains(not, leader) {
		t.Fatalf("node %d leads", leader.id)
	}
	return leader
}

// followersOf are the nodes that follow, of which there must be as many.
func followersOf(t *testing.T, c *ZooKeeperServers, want int) []*ZooKeeperServer {
	t.Helper()
	var followers []*ZooKeeperServer
	await(t, "followers", func() (there bool) {
		var err error
		followers, err = c.Followers()
		check(t, err)
		return len(followers) == want
	})
	return followers
}

func TestZooKeeperEnsemble(t *testing.T) {
	t.Parallel()
	c := ZooKeeperEnsemble(t, 3)
	client := dialZooKeeper(t, nil, c.Endpoints()...)
	setZnode(t, client, "/key", "1")
	first := leaderOfZooKeeper(t, c)
	followersOf(t, c, 2)
	check(t, first.Kill())
	second := leaderOfZooKeeper(t, c, first)
	setZnode(t, client, "/key", "2")

	// Without a majority a node starts, and serves nobody.
	third := followersOf(t, c, 1)[0]
	check(t, second.Kill())
	check(t, third.Restart(true))
	ctx, cancel := context.WithTimeout(t.Context(), askPatience)
	defer cancel()
	if mode, err := third.Mode(ctx); err == nil {
		t.Errorf("one node of three is %s", mode)
	}
	check(t, first.Start())
	check(t, second.Start())
	check(t, first.AwaitHealthy())
	back := dialZooKeeper(t, nil, first.Addr())
	await(t, "what was written", func() bool { return znode(t, back, "/key") == "2" })
}

// A node that has lost its data gets it from the others. All nodes that have lost it have none.
func TestZooKeeperEnsembleLosesData(t *testing.T) {
	t.Parallel()
	c := ZooKeeperEnsemble(t, 3)
	setZnode(t, dialZooKeeper(t, nil, c.Endpoints()...), "/key", "1")
	node := followersOf(t, c, 2)[0]
	check(t, node.Kill())
	check(t, c.Restart(true))
	check(t, node.Kill())
	check(t, node.LoseData())
	check(t, node.Start())
	check(t, node.AwaitHealthy())
	for _, node := range c.Nodes {
		if got := znode(t, dialZooKeeper(t, nil, node.Addr()), "/key"); got != "1" {
			t.Errorf("node %d has %s, want 1", node.id, got)
		}
	}
	check(t, c.Restart(false))
	if got := znode(t, dialZooKeeper(t, nil, c.Endpoints()...), "/key"); got != "<nil>" {
		t.Errorf("the znode is %s after a restart without data", got)
	}
}

// A follower that is cut off serves reads until it notices, and follows again once it is back. The others go on.
func TestZooKeeperIsolatedFollower(t *testing.T) {
	t.Parallel()
	c := ZooKeeperEnsemble(t, 3, Cuttable(), Args("syncLimit=8"))
	node, leader := followersOf(t, c, 2)[0], leaderOfZooKeeper(t, c)
	near, far := dialZooKeeper(t, nil, node.Addr()), dialZooKeeper(t, nil, leader.Addr())
	setZnode(t, near, "/key", "1")
	check(t, node.Isolate())
	setZnode(t, far, "/key", "2")
	if value, _, err := near.Get("/key"); err != nil || string(value) != "1" {
		t.Errorf("the follower that is cut off has %q, want what it was before: %v", value, err)
	}
	if said, err := node.Command(t.Context(), "ruok"); said != "imok" {
		t.Errorf("the follower that is cut off says %q: %v", said, err)
	}
	await(t, "notice of the cut", func() bool { return node.checkHealthy(t.Context()) != nil })
	setZnode(t, far, "/key", "3")
	leaderOfZooKeeper(t, c, node)
	node.Rejoin()
	check(t, node.AwaitHealthy())
	await(t, "what was written", func() bool { return znode(t, near, "/key") == "3" })
}

// A follower that is muted hears of what the others write. What it is asked to write itself is written once it is back.
func TestZooKeeperMutedFollower(t *testing.T) {
	t.Parallel()
	c := ZooKeeperEnsemble(t, 3, Cuttable(), Args("syncLimit=1000"))
	node, leader := followersOf(t, c, 2)[0], leaderOfZooKeeper(t, c)
	near, far := dialZooKeeper(t, nil, node.Addr()), dialZooKeeper(t, nil, leader.Addr())
	setZnode(t, near, "/key", "1")
	check(t, node.Mute())
	setZnode(t, far, "/key", "2")
	await(t, "what was written", func() bool { return znode(t, near, "/key") == "2" })
	set := make(chan error, 1)
	go func() {
		_, err := near.Set("/key", []byte("3"), -1)
		set <- err
	}()
	await(t, "the request", func() bool {
		said, err := node.Command(t.Context(), "srvr")
		check(t, err)
		return strings.Contains(said, "\nOutstanding: 1\n")
	})
	if got := znode(t, far, "/key"); got != "2" {
		t.Errorf("the leader has %s, want what it was before", got)
	}
	node.Rejoin()
	check(t, <-set)
	if got := znode(t, far, "/key"); got != "3" {
		t.Errorf("the leader has %s, want what the follower was asked for", got)
	}
}

// The others choose a leader of their own, and the one that is cut off follows it once it is back.
func TestZooKeeperIsolatedLeader(t *testing.T) {
	t.Parallel()
	c := ZooKeeperEnsemble(t, 3, Cuttable(), Args("syncLimit=8"))
	first := leaderOfZooKeeper(t, c)
	check(t, first.Isolate())
	check(t, first.Isolate()) // it is already
	await(t, "another leader", func() bool {
		leader, err := c.Leader()
		check(t, err)
		return leader != first
	})
	setZnode(t, dialZooKeeper(t, nil, leaderOfZooKeeper(t, c, first).Addr()), "/key", "1")
	first.Rejoin()
	await(t, "the old leader to follow", func() bool {
		mode, err := first.Mode(t.Context())
		return err == nil && mode == "follower"
	})
	back := dialZooKeeper(t, nil, first.Addr())
	await(t, "what was written", func() bool { return znode(t, back, "/key") == "1" })
}

func TestZooKeeperIsolateWithoutLinks(t *testing.T) {
	t.Parallel()
	if newZooKeeperEnsemble(t, 3).Nodes[0].Isolate() == nil {
		t.Error("a node was cut off that has no links")
	}
}

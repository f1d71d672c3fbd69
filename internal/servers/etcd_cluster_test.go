package servers

import (
	"context"
	"strings"
	"testing"
)

// leaderOf is the leader, which must not be one of these.
func leaderOf(t *testing.T, c *EtcdServers, not ...*EtcdServer) *EtcdServer {
	t.Helper()
	leader, err := c.Leader()
	check(t, err)
	for _, node := range not {
		if leader == node {
			t.Fatalf("%s leads", node.name)
		}
	}
	return leader
}

func TestEtcdCluster(t *testing.T) {
	t.Parallel()
	c := EtcdCluster(t, 3)
	client := c.Client(t)
	put(t, client, "key", "1")
	first := leaderOf(t, c)
	check(t, first.Kill())
	second := leaderOf(t, c, first)
	put(t, client, "key", "2")

	// Without a majority a node starts, and serves nobody.
	check(t, second.Kill())
	for _, node := range c.Nodes {
		if node != first && node != second {
			check(t, node.Restart(true))
			ctx, cancel := context.WithTimeout(t.Context(), askPatience)
			if node.checkHealthy(ctx) == nil {
				t.Error("one node of three serves clients")
			}
			cancel()
		}
	}
	check(t, first.Start())
	check(t, second.Start())
	check(t, first.AwaitHealthy())
	if got := get(t, first.Client(t), "key"); got != "2" {
		t.Errorf("a node that came back has %s, want 2", got)
	}
}

func TestEtcdClusterPausedLeader(t *testing.T) {
	t.Parallel()
	c := EtcdCluster(t, 3)
	first := leaderOf(t, c)
	check(t, first.Pause())
	put(t, leaderOf(t, c, first).Client(t), "key", "1")
	check(t, first.Continue())
	if got := get(t, first.Client(t), "key"); got != "1" {
		t.Errorf("a leader that slept has %s, want 1", got)
	}
}

func TestEtcdClusterRestart(t *testing.T) {
	t.Parallel()
	c := EtcdCluster(t, 3, Password("correct horse"), TLS(NewCertificates(t)))
	client := c.Client(t)
	put(t, client, "key", "1")
	check(t, c.Nodes[1].Kill())
	check(t, c.Restart(true))
	for _, node := range c.Nodes {
		if got := get(t, node.Client(t), "key"); got != "1" {
			t.Errorf("%s has %s after a restart, want 1", node.name, got)
		}
	}
	check(t, c.Restart(false))
	if got := get(t, c.Client(t), "key"); got != "<nil>" {
		t.Errorf("the key is %s after a restart without data", got)
	}
}

// The others remember a node that lost its data. It must not vote as if it had never been there.
func TestEtcdClusterNodeLosesData(t *testing.T) {
	t.Parallel()
	c := EtcdCluster(t, 3)
	check(t, c.Nodes[0].Kill())
	check(t, c.Nodes[0].LoseData())
	err := c.Nodes[0].Start()
	if err == nil || !strings.Contains(err.Error(), "already been bootstrapped") {
		t.Errorf("started: %v", err)
	}
}

package servers

import (
	"context"
	"net/http"
	"slices"
	"testing"
)

// leaderOfConsul is the leader, which must not be one of these.
func leaderOfConsul(t *testing.T, c *ConsulServers, not ...*ConsulServer) *ConsulServer {
	t.Helper()
	leader, err := c.Leader()
	check(t, err)
	if slices.Contains(not, leader) {
		t.Fatalf("%s leads", leader.name)
	}
	return leader
}

func TestConsulCluster(t *testing.T) {
	t.Parallel()
	c := ConsulCluster(t, 3)
	first := leaderOfConsul(t, c)
	dialConsul(t, first, nil).put(t, "key", "1")
	check(t, first.Kill())
	second := leaderOfConsul(t, c, first)
	dialConsul(t, second, nil).put(t, "key", "2")

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
	if got := dialConsul(t, first, nil).get(t, "key"); got != "2" {
		t.Errorf("a node that came back has %s, want 2", got)
	}
}

// The others choose another leader, and the old one follows it once it wakes. With two of three paused nobody is
// served.
func TestConsulClusterPaused(t *testing.T) {
	t.Parallel()
	c := ConsulCluster(t, 3)
	first := leaderOfConsul(t, c)
	check(t, first.Pause())
	second := leaderOfConsul(t, c, first)
	dialConsul(t, second, nil).put(t, "key", "1")
	followers, err := c.Followers()
	check(t, err)
	if len(followers) != 2 || slices.Contains(followers, second) {
		t.Errorf("the followers of %s are %v", second.name, addrsOf(followers))
	}
	check(t, second.Pause())
	third := slices.IndexFunc(c.Nodes, func(node *ConsulServer) bool { return node != first && node != second })
	ctx, cancel := context.WithTimeout(t.Context(), askPatience)
	defer cancel()
	if c.Nodes[third].checkHealthy(ctx) == nil {
		t.Error("one node of three serves clients")
	}
	check(t, first.Continue())
	check(t, second.Continue())
	if got := dialConsul(t, first, nil).get(t, "key"); got != "1" {
		t.Errorf("a leader that slept has %s, want 1", got)
	}
}

// A node that has lost its data gets it from the others. All nodes that have lost it have none.
func TestConsulClusterLosesData(t *testing.T) {
	t.Parallel()
	c := ConsulCluster(t, 3, Password(newNodeID()), TLS(NewCertificates(t)))
	tls := c.set.certificates.Client
	dialConsul(t, c.Nodes[0], tls).put(t, "key", "1")
	followers, err := c.Followers()
	check(t, err)
	check(t, followers[0].Kill())
	check(t, followers[0].LoseData())
	check(t, followers[0].Start())
	check(t, followers[0].AwaitHealthy())
	if got := dialConsul(t, followers[0], tls).get(t, "key"); got != "1" {
		t.Errorf("the key is %s at a node that had lost its data", got)
	}
	check(t, c.Restart(true))
	for _, node := range c.Nodes {
		if got := dialConsul(t, node, tls).get(t, "key"); got != "1" {
			t.Errorf("%s has %s after a restart, want 1", node.name, got)
		}
	}
	check(t, c.Restart(false))
	if got := dialConsul(t, c.Nodes[0], tls).get(t, "key"); got != "<nil>" {
		t.Errorf("the key is %s after a restart without data", got)
	}
}

// A token that was made at one node is known at all of them.
func TestConsulClusterToken(t *testing.T) {
	t.Parallel()
	c := ConsulCluster(t, 3, Password(newNodeID()))
	token, err := c.Nodes[0].Token(t.Context(), `key_prefix "" { policy = "write" }`)
	check(t, err)
	for _, node := range c.Nodes {
		k := dialConsul(t, node, nil)
		k.token = token
		if _, err := k.request(t.Context(), http.MethodPut, "/v1/kv/key", node.name); err != nil {
			t.Errorf("%s: %v", node.name, err)
		}
	}
}

// A client agent passes on what it is asked. A session that was made through it outlives its death, but not its
// departure.
func TestConsulAgent(t *testing.T) {
	t.Parallel()
	server := Consul(t)
	agent := server.cluster.Agent(t)
	dialConsul(t, agent, nil).put(t, "key", "1")
	if got := dialConsul(t, server, nil).get(t, "key"); got != "1" {
		t.Errorf("the server has %s, want 1", got)
	}
	var session struct{ ID string }
	none := map[string]any{"NodeChecks": []string{}}
	check(t, agent.Call(t.Context(), http.MethodPut, "/v1/session/create", none, &session))
	sessions := func() int {
		var there []struct{ Node string }
		check(t, server.Call(t.Context(), http.MethodGet, "/v1/session/info/"+session.ID, nil, &there))
		for _, s := range there {
			if s.Node != agent.Name() {
				t.Errorf("it belongs to %s", s.Node)
			}
		}
		return len(there)
	}
	check(t, agent.Kill())
	check(t, agent.Start())
	check(t, agent.AwaitHealthy())
	if sessions() != 1 {
		t.Error("a session ended when its agent was killed")
	}
	check(t, agent.Stop())
	await(t, "the end of the session", func() bool { return sessions() == 0 })
}

// A leader is deposed and hears nothing of it: it renews sessions, while another leads and takes writes. When it hears,
// it follows.
func TestConsulDeposedLeader(t *testing.T) {
	t.Parallel()
	c := ConsulCluster(t, 3, Cuttable(), OwnTimeouts())
	var session struct{ ID string }
	check(t, leaderOfConsul(t, c).Call(t.Context(), http.MethodPut, "/v1/session/create", nil, &session))
	deposed, elected, hear, err := c.Depose(t.Context())
	check(t, err)
	defer hear()
	check(t, deposed.Call(t.Context(), http.MethodPut, "/v1/session/renew/"+session.ID, nil, nil))
	if _, leads, err := deposed.raftStatus(t.Context()); !leads {
		t.Errorf("it knows that it leads no more: %v", err)
	}
	check(t, elected.Call(t.Context(), http.MethodPut, "/v1/kv/key", 1, nil))
	hear()
	check(t, deposed.AwaitHealthy())
	leaderOfConsul(t, c, deposed)
	if got := dialConsul(t, deposed, nil).get(t, "key"); got != "1" {
		t.Errorf("it has %s, want 1", got)
	}
}

func TestConsulDeposeWithoutLinks(t *testing.T) {
	t.Parallel()
	if _, _, _, err := newConsulCluster(t, 3).Depose(t.Context()); err == nil {
		t.Error("a leader was made deaf that has no links")
	}
}

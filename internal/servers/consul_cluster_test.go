package servers

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
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

// Three servers, and what becomes of them one after the other: each step begins with all of them in good order.
func TestConsulCluster(t *testing.T) {
	t.Parallel()
	c := ConsulCluster(t, 3, Password(uuid.NewString()), TLS(NewCertificates(t)))
	for _, step := range []struct {
		name string
		do   func(*testing.T, *ConsulServers)
	}{
		{"token", testConsulToken},
		{"killed", testConsulKilled},
		{"votes", testConsulVotes},
		{"paused", testConsulPaused},
		{"node loses data", testConsulNodeLosesData},
		{"all restart", testConsulAllRestart},
	} {
		t.Run(step.name, func(t *testing.T) { step.do(t, c) })
		check(t, each(c.Nodes, (*ConsulServer).AwaitHealthy))
	}
}

// dial makes a client of one node.
func (c *ConsulServers) dial(t *testing.T, node *ConsulServer) *kv {
	t.Helper()
	return dialConsul(t, node, c.set.certificates.Client)
}

// A token that was made at one node is known at all of them.
func testConsulToken(t *testing.T, c *ConsulServers) {
	token, err := c.Nodes[0].Token(t.Context(), `key_prefix "" { policy = "write" }`)
	check(t, err)
	for _, node := range c.Nodes {
		k := c.dial(t, node)
		k.token = token
		if _, err := k.request(t.Context(), http.MethodPut, "/v1/kv/key", node.name); err != nil {
			t.Errorf("%s: %v", node.name, err)
		}
	}
}

// Without its leader a cluster finds another. Without a majority a node starts, and serves nobody.
func testConsulKilled(t *testing.T, c *ConsulServers) {
	first := leaderOfConsul(t, c)
	check(t, first.Kill())
	second := leaderOfConsul(t, c, first)
	c.dial(t, second).put(t, "key", "1")
	check(t, second.Kill())
	third := without(c.Nodes, first, second)[0]
	check(t, third.Restart(true))
	servesNobody(t, third)
	check(t, first.Start())
	check(t, second.Start())
	check(t, first.AwaitHealthy())
	if got := c.dial(t, first).get(t, "key"); got != "1" {
		t.Errorf("a node that came back has %s, want 1", got)
	}
}

// A server that is down keeps its vote: with it and one other, there is a leader again as soon as it is back. A leader
// that removes such servers does so every 10 s.
func testConsulVotes(t *testing.T, c *ConsulServers) {
	leader := leaderOfConsul(t, c)
	node := without(c.Nodes, leader)[0]
	check(t, node.Kill())
	var raft struct{ Servers []struct{ Voter bool } }
	for end := time.Now().Add(12 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		check(t, leader.Call(t.Context(), http.MethodGet, "/v1/operator/raft/configuration", nil, &raft))
		voters := 0
		for _, s := range raft.Servers {
			if s.Voter {
				voters++
			}
		}
		if voters != len(c.Nodes) {
			t.Fatalf("%d servers have a vote while one is down, want %d", voters, len(c.Nodes))
		}
	}
	check(t, node.Start())
}

// The others choose another leader, and the old one follows it once it wakes. With two of three paused, nobody is
// served.
func testConsulPaused(t *testing.T, c *ConsulServers) {
	first := leaderOfConsul(t, c)
	check(t, first.Pause())
	second := leaderOfConsul(t, c, first)
	c.dial(t, second).put(t, "key", "2")
	followers, err := c.Followers()
	check(t, err)
	if !slices.Equal(followers, without(c.Nodes, second)) {
		t.Errorf("the followers of %s are %v", second.name, addrsOf(followers))
	}
	check(t, second.Pause())
	servesNobody(t, without(c.Nodes, first, second)[0])
	check(t, first.Continue())
	check(t, second.Continue())
	check(t, first.AwaitHealthy())
	if got := c.dial(t, first).get(t, "key"); got != "2" {
		t.Errorf("a leader that slept has %s, want 2", got)
	}
}

// A node that has lost its data gets it from the others.
func testConsulNodeLosesData(t *testing.T, c *ConsulServers) {
	c.dial(t, c.Nodes[0]).put(t, "key", "3")
	followers, err := c.Followers()
	check(t, err)
	node := followers[0]
	check(t, node.Kill())
	check(t, node.LoseData())
	check(t, node.Start())
	check(t, node.AwaitHealthy())
	k := c.dial(t, node)
	await(t, "its own copy of the key", func() bool {
		value, err := k.request(t.Context(), http.MethodGet, "/v1/kv/key?raw&stale", "")
		return err == nil && value == "3"
	})
}

// Nodes that all restart have what they had, or nothing.
func testConsulAllRestart(t *testing.T, c *ConsulServers) {
	c.dial(t, c.Nodes[0]).put(t, "key", "4")
	for keepData, want := range map[bool]string{true: "4", false: "<nil>"} {
		check(t, c.Restart(keepData))
		for _, node := range c.Nodes {
			if got := c.dial(t, node).get(t, "key"); got != want {
				t.Errorf("%s has %s after a restart, want %s", node.name, got, want)
			}
		}
		c.dial(t, c.Nodes[0]).put(t, "key", "4")
	}
}

// without are all nodes but these.
func without(nodes []*ConsulServer, not ...*ConsulServer) []*ConsulServer {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *ConsulServer) bool { return slices.Contains(not, n) })
}

func servesNobody(t *testing.T, node *ConsulServer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), askPatience)
	defer cancel()
	if node.checkHealthy(ctx) == nil {
		t.Errorf("%s serves clients without a majority", node.name)
	}
}

// A client agent passes on what it is asked. A session that was made through it outlives its death, but not its
// departure.
func TestConsulAgent(t *testing.T) {
	t.Parallel()
	server := Consul(t, Volatile())
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
	for range 5 { // it leads in its own eyes for 2.5 s: on a busy machine that may be over before it is asked
		if deposedLeads(t, c) {
			return
		}
	}
	t.Error("no leader renewed a session after it was deposed")
}

// deposedLeads deposes the leader, and reports whether it renewed a session afterwards.
func deposedLeads(t *testing.T, c *ConsulServers) bool {
	var session struct{ ID string }
	check(t, leaderOfConsul(t, c).Call(t.Context(), http.MethodPut, "/v1/session/create", nil, &session))
	deposed, elected, hear, err := c.Depose(t.Context())
	check(t, err)
	defer hear()
	renewed := deposed.Call(t.Context(), http.MethodPut, "/v1/session/renew/"+session.ID, nil, nil)
	_, leads, err := deposed.raftStatus(t.Context())
	check(t, elected.Call(t.Context(), http.MethodPut, "/v1/kv/key", 1, nil))
	hear()
	check(t, deposed.AwaitHealthy())
	leaderOfConsul(t, c, deposed)
	if got := dialConsul(t, deposed, nil).get(t, "key"); got != "1" {
		t.Errorf("it has %s, want 1", got)
	}
	t.Logf("renewed: %v; it leads: %v, %v", renewed, leads, err)
	return renewed == nil && leads
}

func TestConsulDeposeWithoutLinks(t *testing.T) {
	t.Parallel()
	if _, _, _, err := newConsulCluster(t, 3).Depose(t.Context()); err == nil {
		t.Error("a leader was made deaf that has no links")
	}
}

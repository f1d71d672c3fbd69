package servers

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/uuid"
)

// A ConsulServer is a Consul agent that runs for one test: a server, alone or as a node of a cluster, or a client agent
// beside a cluster.
//
// A node of a cluster has started when it responds by itself. It does not wait for the others, and without a majority
// of them it serves no client: see [ConsulServer.AwaitHealthy]. Once it has lost its data, it copies that of the leader
// when it starts.
type ConsulServer struct {
	*Server
	name    string
	number  int            // of a server in its cluster, from 1; 0: it is a client agent
	id      string         // Consul's, which outlives the data
	cluster *ConsulServers // one of itself, if it is alone
}

// Consul starts a Consul server. With [Password] it denies everything that no policy allows, and the password is the
// token that may do everything: see [ConsulServer.Token]. Sessions may be as short as half a second.
//
// Args are those of `consul agent`, such as "-hcl", `limits { http_max_conns_per_client = 10 }`.
func Consul(t testing.TB, options ...Option) *ConsulServer {
	t.Helper()
	return ConsulCluster(t, 1, options...).Nodes[0]
}

// The ports of a Consul agent, as indexes.
const (
	consulClients = iota // HTTP, or HTTPS with [TLS]
	consulServers        // where a server waits for the others, and for client agents
	consulGossip
	consulPorts
)

// consulSocket is the file in an agent's folder where it serves HTTP too, also with [TLS].
const consulSocket = "http.sock"

// newConsul makes an agent. Its mode is what makes it a server, as arguments of the program.
func newConsul(t testing.TB, cluster *ConsulServers, name string, mode []string, set *settings) *ConsulServer {
	t.Helper()
	c := &ConsulServer{name: name, id: uuid.NewString(), cluster: cluster}
	c.Server = newServer(t, kind{
		program:   "consul",
		portCount: consulPorts,
		env:       set.env,
		args:      func() []string { return slices.Concat([]string{"agent", "-hcl", c.config(set)}, mode, set.args) },
		ready:     c.checkReady,
	})
	return c
}

// config is its configuration in JSON, which is HCL too.
func (c *ConsulServer) config(set *settings) string {
	config := map[string]any{
		"node_name": c.name,
		"node_id":   c.id,
		"data_dir":  c.dataDir(),
		"bind_addr": c.bindIP(),
		"ports": map[string]int{
			"http":     c.Port(), // no socket is opened without it
			"https":    -1,
			"server":   c.ports[consulServers],
			"serf_lan": c.ports[consulGossip],
			"serf_wan": -1,
			"dns":      -1,
			"grpc":     -1,
			"grpc_tls": -1,
		},
		"addresses":      map[string]string{"http": "127.0.0.1 unix://" + c.Socket()},
		"retry_join":     c.cluster.gossipAddrs(),
		"retry_interval": "100ms",
		"raft_logstore":  map[string]any{"wal": map[string]int{"segment_size_mb": 1}},
		// A leader would remove a server that is down, and give it no vote for 10 s when it is back.
		"autopilot":            map[string]bool{"cleanup_dead_servers": false},
		"connect":              map[string]bool{"enabled": false},
		"peering":              map[string]bool{"enabled": false},
		"telemetry":            map[string]any{"prometheus_retention_time": "24h", "disable_hostname": true},
		"disable_update_check": true,
		"disable_coordinates":  true,
		"log_level":            "warn",
		// A leader has a blocking query of its own for that, after the first time: see BlockingQueries.
		"federation_state_anti_entropy_sync_interval": "24h",
	}
	if c.isCuttable() {
		config["advertise_addr"], config["serf_lan"] = c.foundIP(), c.foundIP()
	}
	if !set.ownTimeouts {
		// The least that Consul allows: a new leader after one or two seconds.
		config["performance"] = map[string]any{"raft_multiplier": 1, "leave_drain_time": "100ms"}
		config["session_ttl_min"] = "500ms"
	}
	if set.password != "" {
		config["acl"] = map[string]any{
			"enabled":        true,
			"default_policy": "deny",
			"tokens":         map[string]string{"initial_management": set.password, "agent": set.password},
		}
	}
	if tls := set.certificates; tls != nil {
		config["ports"].(map[string]int)["https"] = c.Port()
		config["addresses"] = map[string]string{"http": "unix://" + c.Socket(), "https": "127.0.0.1"}
		config["tls"] = map[string]any{
			"https": map[string]string{"ca_file": tls.CAFile, "cert_file": tls.CertFile, "key_file": tls.KeyFile},
		}
	}
	text, _ := json.Marshal(config) // it cannot fail
	return string(text)
}

// isCuttable reports whether it is a server that the others reach through proxies.
func (c *ConsulServer) isCuttable() bool { return c.cluster.set.cuttable && c.number > 0 }

// bindIP is where it listens for other agents.
func (c *ConsulServer) bindIP() string {
	if c.isCuttable() {
		return c.ownIP()
	}
	return "127.0.0.1"
}

// Name is the name of its node, which sessions belong to.
func (c *ConsulServer) Name() string { return c.name }

// Socket is the Unix socket where it serves HTTP, in its folder.
func (c *ConsulServer) Socket() string { return filepath.Join(c.dir, consulSocket) }

// URL is where it serves HTTP, or HTTPS with [TLS].
func (c *ConsulServer) URL() string { return c.httpURL(c.cluster.set.certificates) }

// checkReady demands that the process that was started answers: nobody else has a socket in its folder, and Consul
// opens it when the other ports are its own. A server that is alone must serve clients too. A node may have to wait for
// others before it can.
func (c *ConsulServer) checkReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), consulPatience)
	defer cancel()
	if len(c.cluster.Nodes) == 1 {
		return c.checkHealthy(ctx)
	}
	var leader string
	return c.get(ctx, "/v1/status/leader", &leader)
}

// checkHealthy demands that a leader that has a majority serves clients through it, and knows its node as alive: no
// session can belong to it before.
func (c *ConsulServer) checkHealthy(ctx context.Context) error {
	var checks []struct{ CheckID, Status string }
	if err := c.get(ctx, "/v1/health/node/"+c.name+"?consistent", &checks); err != nil {
		return err
	}
	for _, check := range checks {
		if check.CheckID == "serfHealth" && check.Status == "passing" {
			return nil
		}
	}
	return fmt.Errorf("the leader does not know that %s is alive: %v", c.name, checks)
}

// AwaitHealthy waits until it serves its clients. For a node that means that it has found a majority.
func (c *ConsulServer) AwaitHealthy() error {
	return c.failed("await health", poll(c.checkHealthy))
}

package servers

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/google/uuid"
)

// ConsulServers are the servers of one Consul cluster.
type ConsulServers struct {
	Nodes []*ConsulServer

	set   *settings
	links consulLinks // of one that is Cuttable
}

// ConsulCluster starts a Consul cluster of n servers. All of them serve clients when it returns. The options are for
// every node, and Args are those of `consul agent` as for [Consul].
func ConsulCluster(t testing.TB, n int, options ...Option) *ConsulServers {
	t.Helper()
	c := newConsulCluster(t, n, options...)
	must(t, c.firstStart())
	return c
}

// newConsulCluster returns a cluster of n servers that are not started yet.
func newConsulCluster(t testing.TB, n int, options ...Option) *ConsulServers {
	t.Helper()
	c := &ConsulServers{set: settingsOf(options)}
	atEnd(t, func() error { return c.links.close() }) // after the servers have ended
	mode := []string{"-server", "-bootstrap-expect", strconv.Itoa(n)}
	if c.set.volatile {
		mode = []string{"-dev"}
	}
	for i := range n {
		node := newConsul(t, c, fmt.Sprintf("node%d", i+1), mode, c.set)
		node.number = i + 1
		c.Nodes = append(c.Nodes, node)
	}
	return c
}

// gossipAddrs are where the servers gossip.
func (c *ConsulServers) gossipAddrs() []string {
	var addrs []string
	for _, node := range c.Nodes {
		ip := node.bindIP()
		if c.set.cuttable {
			ip = node.foundIP()
		}
		addrs = append(addrs, fmt.Sprintf("%s:%d", ip, node.ports[consulGossip]))
	}
	return addrs
}

// firstStart starts all servers on free ports. Each knows the ports of all.
func (c *ConsulServers) firstStart() error {
	if err := startTogether(c.Nodes, c.choosePorts, func(s *ConsulServer) error { return s.startHere() }); err != nil {
		return err
	}
	return each(c.Nodes, (*ConsulServer).AwaitHealthy)
}

// choosePorts chooses the ports of all servers, and makes what depends on them.
func (c *ConsulServers) choosePorts() error {
	err := each(c.Nodes, func(s *ConsulServer) error { return s.choosePorts() })
	if err == nil && c.set.cuttable {
		err = c.relink()
	}
	return err
}

// Agent starts a client agent beside the servers, which serves clients when it returns. Options other than Args and Env
// are those of the servers.
//
// Sessions that are made through it belong to its node. They are lost when it stops in good order, and outlive Kill.
func (c *ConsulServers) Agent(t testing.TB, options ...Option) *ConsulServer {
	t.Helper()
	own, set := settingsOf(options), *c.set
	set.args, set.env = own.args, own.env
	agent := newConsul(t, c, "agent-"+uuid.NewString()[:8], nil, &set)
	must(t, agent.firstStart())
	must(t, agent.AwaitHealthy())
	return agent
}

// Restart kills all servers at once and starts them again on the same ports, with their data or without.
func (c *ConsulServers) Restart(keepData bool) error { return restartTogether(c.Nodes, keepData) }

// Endpoints are the addresses of all servers, as host:port.
func (c *ConsulServers) Endpoints() []string { return addrsOf(c.Nodes) }

// Leader is the server that leads, as it and a majority say. If there is none, it waits for one.
func (c *ConsulServers) Leader() (*ConsulServer, error) { return pollFor(c.leaderNow) }

// leaderNow returns the leader, or an error if there is none at present.
func (c *ConsulServers) leaderNow() (*ConsulServer, error) {
	return leaderNow(c.Nodes, (*ConsulServer).raftStatus)
}

// Followers are the servers that do not lead, once there is a leader. They may be stopped.
func (c *ConsulServers) Followers() ([]*ConsulServer, error) {
	leader, err := c.Leader()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(s *ConsulServer) bool { return s == leader }), nil
}

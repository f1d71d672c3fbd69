package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
)

// ZooKeeperServers are the nodes of one ZooKeeper ensemble.
type ZooKeeperServers struct {
	Nodes []*ZooKeeperServer

	set   *settings
	links zooKeeperLinks // none, unless the ensemble is [Cuttable]
}

// ZooKeeperEnsemble starts a ZooKeeper ensemble of n nodes. All of them serve clients when it returns. The options are
// for every node, and Args are lines of zoo.cfg as for [ZooKeeper].
func ZooKeeperEnsemble(t testing.TB, n int, options ...Option) *ZooKeeperServers {
	t.Helper()
	c := newZooKeeperEnsemble(t, n, options...)
	must(t, c.firstStart())
	return c
}

// newZooKeeperEnsemble returns an ensemble of n nodes that are not started yet.
func newZooKeeperEnsemble(t testing.TB, n int, options ...Option) *ZooKeeperServers {
	t.Helper()
	c := &ZooKeeperServers{set: settingsOf(options)}
	atEnd(t, func() error { return c.links.close() }) // after the nodes have ended
	for i := range n {
		c.Nodes = append(c.Nodes, newZooKeeper(t, c, i+1))
	}
	return c
}

// linesFor returns the lines of zoo.cfg that name all nodes to one of them. A server that is alone has none.
func (c *ZooKeeperServers) linesFor(reader *ZooKeeperServer) []string {
	if len(c.Nodes) == 1 {
		return nil
	}
	var lines []string
	for _, node := range c.Nodes {
		quorum, election := node.addrOf(quorumPort), node.addrOf(electionPort)
		if link := c.links[pair{reader, node}]; link != nil {
			quorum, election = link.quorum.Addr(), link.election.Addr()
		}
		_, port, _ := net.SplitHostPort(election)
		lines = append(lines, fmt.Sprintf("server.%d=%s:%s", node.id, quorum, port))
	}
	return lines
}

// firstStart starts all nodes on free ports. Each node knows the ports of all.
func (c *ZooKeeperServers) firstStart() error {
	return startTogether(c.Nodes, c.choosePorts, (*ZooKeeperServer).firstStart)
}

// choosePorts chooses the ports of all nodes, and makes what depends on them.
func (c *ZooKeeperServers) choosePorts() error {
	if err := each(c.Nodes, func(z *ZooKeeperServer) error { return z.choosePorts() }); err != nil {
		return err
	}
	if c.set.cuttable {
		if err := c.relink(); err != nil {
			return err
		}
	}
	return each(c.Nodes, func(z *ZooKeeperServer) error {
		return errors.Join(os.RemoveAll(z.logFile()), z.writeConfig()) // the log tells of the ports before
	})
}

// Restart kills all nodes at once and starts them again on the same ports, with their data or without.
func (c *ZooKeeperServers) Restart(keepData bool) error { return restartTogether(c.Nodes, keepData) }

// Endpoints returns the addresses of all nodes, as host:port.
func (c *ZooKeeperServers) Endpoints() []string { return addrsOf(c.Nodes) }

// Leader returns the node that leads a majority. If there is none, it waits for one. It never returns an old leader
// that has not noticed its successor yet.
func (c *ZooKeeperServers) Leader() (*ZooKeeperServer, error) {
	leader, _, err := c.roles()
	return leader, err
}

// Followers returns the nodes that follow. If no node leads a majority, it waits until one does.
func (c *ZooKeeperServers) Followers() ([]*ZooKeeperServer, error) {
	_, followers, err := c.roles()
	return followers, err
}

// roles waits until a node leads a majority, and returns that node and its followers.
func (c *ZooKeeperServers) roles() (leader *ZooKeeperServer, followers []*ZooKeeperServer, err error) {
	err = poll(func(ctx context.Context) (err error) {
		leader, followers, err = c.rolesNow(ctx)
		return err
	})
	return leader, followers, err
}

// rolesNow returns the leader and its followers, or an error if no node leads a majority at present.
func (c *ZooKeeperServers) rolesNow(ctx context.Context) (
	leader *ZooKeeperServer, followers []*ZooKeeperServer, err error,
) {
	states := make([]zooKeeperStatus, len(c.Nodes))
	_ = each(c.Nodes, func(z *ZooKeeperServer) (err error) { // a node that does not respond does not count
		states[z.id-1], err = z.status(ctx)
		return err
	})
	var epoch uint64
	for i, node := range c.Nodes {
		switch state := states[i]; state.mode {
		case "leader":
			if leader == nil || state.epoch > epoch {
				leader, epoch = node, state.epoch
			}
		case "follower":
			followers = append(followers, node)
		}
	}
	if leader == nil || 1+len(followers) <= len(c.Nodes)/2 {
		return nil, nil, errors.New("zookeeper: no node leads a majority")
	}
	return leader, followers, nil
}

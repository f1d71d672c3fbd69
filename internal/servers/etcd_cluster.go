package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// EtcdServers are the nodes of one etcd cluster.
type EtcdServers struct {
	Nodes []*EtcdServer

	token        string // nodes of two clusters never talk, whatever ports they get
	password     string
	certificates *Certificates
}

// EtcdCluster starts an etcd cluster of n nodes. All of them serve clients when it returns. The options are for every
// node.
func EtcdCluster(t testing.TB, n int, options ...Option) *EtcdServers {
	t.Helper()
	c := newEtcdCluster(t, n, options...)
	if err := c.firstStart(); err != nil {
		t.Fatal(err)
	}
	return c
}

func newEtcdCluster(t testing.TB, n int, options ...Option) *EtcdServers {
	t.Helper()
	set := settingsOf(options)
	c := &EtcdServers{token: rand.Text(), password: set.password, certificates: set.certificates}
	for i := range n {
		c.Nodes = append(c.Nodes, newEtcd(t, c, fmt.Sprintf("node%d", i+1), set))
	}
	return c
}

// initial names all nodes to each of them.
func (c *EtcdServers) initial() string {
	var nodes []string
	for _, node := range c.Nodes {
		nodes = append(nodes, node.name+"="+node.peerURL())
	}
	return strings.Join(nodes, ",")
}

// firstStart starts all nodes on free ports, for as long as somebody else is quicker. Each node knows the ports of
// all, so they try again together.
func (c *EtcdServers) firstStart() error {
	var err error
	for range maxClashes {
		if err := c.choosePorts(); err != nil {
			return err
		}
		err = each(c.Nodes, func(e *EtcdServer) error { return e.startHere() })
		if !errors.Is(err, errClash) {
			break
		}
		if err := c.kill(false); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return c.awaitHealthy()
}

func (c *EtcdServers) choosePorts() (err error) {
	for _, node := range c.Nodes {
		freePorts(node.ports)
		if node.ports, err = node.pick(node.portCount); err != nil {
			return err
		}
	}
	return nil
}

// Restart kills all nodes at once and starts them again on the same ports, with their data or without. It does not stop
// them: a leader that is stopped would wait for another to take over, who is going too.
func (c *EtcdServers) Restart(keepData bool) error {
	if err := c.kill(keepData); err != nil {
		return err
	}
	if err := each(c.Nodes, func(e *EtcdServer) error { return e.Start() }); err != nil {
		return err
	}
	return c.awaitHealthy()
}

// kill ends the nodes that run.
func (c *EtcdServers) kill(keepData bool) error {
	return each(c.Nodes, func(e *EtcdServer) error {
		if err := e.Kill(); err != nil && !errors.Is(err, errStopped) {
			return err
		}
		if keepData {
			return nil
		}
		return e.LoseData()
	})
}

// awaitHealthy waits until every node serves clients, and demands the password of them if there is one.
func (c *EtcdServers) awaitHealthy() error {
	if err := each(c.Nodes, (*EtcdServer).AwaitHealthy); err != nil {
		return err
	}
	return poll(c.demandLogin)
}

// Leader is the node that leads, as it and a majority say. If there is none, it waits for one.
func (c *EtcdServers) Leader() (leader *EtcdServer, err error) {
	err = poll(func(ctx context.Context) error {
		leader = c.leaderNow(ctx)
		if leader == nil {
			return errors.New("etcd: no node leads a majority")
		}
		return nil
	})
	return leader, err
}

func (c *EtcdServers) leaderNow(ctx context.Context) *EtcdServer {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	type reign struct {
		leader string
		term   uint64
	}
	var mu sync.Mutex
	followers := map[reign]int{}
	claims := map[reign]*EtcdServer{}
	_ = each(c.Nodes, func(e *EtcdServer) error { // who does not answer does not count
		status, err := e.raftStatus(ctx)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		r := reign{status.Lead, status.Term}
		followers[r]++
		if status.Lead == status.ID {
			claims[r] = e
		}
		return nil
	})
	for r, leader := range claims {
		if followers[r] > len(c.Nodes)/2 {
			return leader
		}
	}
	return nil
}

// Endpoints are the addresses of all nodes, as host:port.
func (c *EtcdServers) Endpoints() []string { return addrsOf(c.Nodes) }

// Client makes a client of all nodes, which is logged in as root if there is a [Password]. It is closed with the test.
func (c *EtcdServers) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	return c.client(t, c.Endpoints())
}

package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// EtcdServers are the nodes of one etcd cluster.
type EtcdServers struct {
	Nodes []*EtcdServer

	set   *settings
	token string // nodes of two clusters never talk, whatever ports they get
}

// EtcdCluster starts an etcd cluster of n nodes. All of them serve clients when it returns. The options are for every
// node.
func EtcdCluster(t testing.TB, n int, options ...Option) *EtcdServers {
	t.Helper()
	c := newEtcdCluster(t, n, options...)
	must(t, c.firstStart())
	return c
}

// newEtcdCluster returns a cluster of n members that are not started yet.
func newEtcdCluster(t testing.TB, n int, options ...Option) *EtcdServers {
	t.Helper()
	c := &EtcdServers{set: settingsOf(options), token: rand.Text()}
	for i := range n {
		c.Nodes = append(c.Nodes, newEtcd(t, c, fmt.Sprintf("node%d", i+1)))
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

// firstStart starts all nodes on free ports, and returns when they serve clients, with a login if there is a password.
// Each node knows the ports of all.
func (c *EtcdServers) firstStart() error {
	choosePorts := func() error { return each(c.Nodes, func(e *EtcdServer) error { return e.choosePorts() }) }
	if err := startTogether(c.Nodes, choosePorts, func(e *EtcdServer) error { return e.startHere() }); err != nil {
		return err
	}
	if err := each(c.Nodes, (*EtcdServer).AwaitHealthy); err != nil {
		return err
	}
	return poll(c.demandLogin)
}

// Restart kills all nodes at once and starts them again on the same ports, with their data or without. It does not stop
// them: a leader that is stopped would wait for another to take over, who is going too.
func (c *EtcdServers) Restart(keepData bool) error {
	if err := restartTogether(c.Nodes, keepData); err != nil {
		return err
	}
	return poll(c.demandLogin)
}

// Leader is the node that leads, as it and a majority say. If there is none, it waits for one.
func (c *EtcdServers) Leader() (*EtcdServer, error) { return pollFor(c.leaderNow) }

// leaderNow returns the leader, or an error if there is none at present.
func (c *EtcdServers) leaderNow() (*EtcdServer, error) {
	return leaderNow(c.Nodes, (*EtcdServer).raftStatus)
}

// Endpoints are the addresses of all nodes, as host:port.
func (c *EtcdServers) Endpoints() []string { return addrsOf(c.Nodes) }

// Client makes a client of all nodes, which is logged in as root if there is a [Password]. It is closed with the test.
func (c *EtcdServers) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	return c.client(t, c.Endpoints())
}

// etcdPatience is how long an etcd server may take to answer. By itself it gives up after six seconds.
const etcdPatience = 8 * time.Second

// etcdUser is the user that may do everything in an etcd that demands a login. Etcd knows this name.
const etcdUser = "root"

// client returns a client for these endpoints, which is closed when the test ends.
func (c *EtcdServers) client(t testing.TB, endpoints []string) *clientv3.Client {
	t.Helper()
	config := c.config(endpoints)
	if c.set.password != "" {
		config.Username, config.Password = etcdUser, c.set.password
	}
	client, err := clientv3.New(config)
	must(t, err)
	t.Cleanup(func() { _ = client.Close() }) // the test may have closed it
	return client
}

// config returns the configuration of a client for these endpoints.
func (c *EtcdServers) config(endpoints []string) clientv3.Config {
	config := clientv3.Config{
		Endpoints:   endpoints,
		DialTimeout: etcdPatience,
		Logger:      zap.NewNop(), // tests end servers on purpose
	}
	if c.set.certificates != nil {
		config.TLS = c.set.certificates.Client.Clone()
	}
	return config
}

// demandLogin has etcd demand a login of every client, if there is a password and it does not yet.
func (c *EtcdServers) demandLogin(ctx context.Context) error {
	if c.set.password == "" {
		return nil
	}
	client, err := clientv3.New(c.config(c.Endpoints()))
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // the response was read
	if _, err := client.Authenticate(ctx, etcdUser, c.set.password); !errors.Is(err, rpctypes.ErrAuthNotEnabled) {
		return err
	}
	// An earlier attempt may have come half way.
	_, err = client.UserAdd(ctx, etcdUser, c.set.password)
	if err != nil && !errors.Is(err, rpctypes.ErrUserAlreadyExist) {
		return err
	}
	_, err = client.RoleAdd(ctx, etcdUser)
	if err != nil && !errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
		return err
	}
	if _, err = client.UserGrantRole(ctx, etcdUser, etcdUser); err != nil {
		return err
	}
	_, err = client.AuthEnable(ctx)
	return err
}

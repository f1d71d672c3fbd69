package servers

import (
	"context"
	"fmt"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// An EtcdServer is an etcd server that runs for one test, alone or as a node of a cluster.
//
// A node of a cluster has started when it responds by itself. It does not wait for the others, and without a majority
// of them it serves no client: see [EtcdServer.AwaitHealthy]. Once it has lost its data, it cannot come back: the
// others remember it, and etcd refuses to start.
type EtcdServer struct {
	*Server
	name    string
	cluster *EtcdServers // one of itself, if it is alone
}

// Etcd starts an etcd server. With [Password] it has a user root with that password, who may do everything, and no
// client may do anything without a login.
func Etcd(t testing.TB, options ...Option) *EtcdServer {
	t.Helper()
	return EtcdCluster(t, 1, options...).Nodes[0]
}

// etcdTimeouts make for a new leader after half a second, on a machine that is busy with other tests.
var etcdTimeouts = []string{"--heartbeat-interval", "50", "--election-timeout", "500"}

// newEtcd returns a member of a cluster that is not started yet.
func newEtcd(t testing.TB, cluster *EtcdServers, name string) *EtcdServer {
	t.Helper()
	e := &EtcdServer{name: name, cluster: cluster}
	set := cluster.set
	args := slices.Concat(etcdTimeouts, set.args)
	if set.ownTimeouts {
		args = set.args
	}
	e.Server = newServer(t, kind{
		program:   "etcd",
		portCount: 2, // for clients and for the other nodes
		env:       set.env,
		args:      func() []string { return append(e.baseArgs(), args...) },
		ready:     e.checkReady,
	})
	return e
}

// baseArgs returns the arguments that every start of the member has.
func (e *EtcdServer) baseArgs() []string {
	args := []string{
		"--name", e.name,
		"--data-dir", e.dataDir(),
		"--listen-client-urls", e.url(),
		"--advertise-client-urls", e.url(),
		"--listen-peer-urls", e.peerURL(),
		"--initial-advertise-peer-urls", e.peerURL(),
		"--listen-metrics-urls", "unix://" + etcdSocket, // in its folder
		"--initial-cluster", e.cluster.initial(),
		"--initial-cluster-token", e.cluster.token,
		"--unsafe-no-fsync",  // the kernel keeps what was written by a process that is killed
		"--bcrypt-cost", "4", // the least: a login takes no time
		"--log-level", "warn",
	}
	if c := e.cluster.set.certificates; c != nil {
		args = append(args, "--cert-file", c.CertFile, "--key-file", c.KeyFile)
	}
	return args
}

// url returns the URL for clients.
func (e *EtcdServer) url() string { return e.httpURL(e.cluster.set.certificates) }

// peerURL returns the URL for other members.
func (e *EtcdServer) peerURL() string { return fmt.Sprintf("http://127.0.0.1:%d", e.ports[1]) }

// Client makes a client of this server alone, which is logged in as root if there is a [Password]. It is closed with
// the test.
func (e *EtcdServer) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	return e.cluster.client(t, []string{e.Addr()})
}

// checkReady demands that the process that was started answers: nobody else has a socket in its folder, and it is the
// last thing that etcd opens, when the ports are its own. A server that is alone must serve clients too. A node may
// have to wait for others before it can.
func (e *EtcdServer) checkReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), etcdPatience)
	defer cancel()
	if _, err := e.getLocal(ctx, "/livez"); err != nil || len(e.cluster.Nodes) > 1 {
		return err
	}
	if err := e.checkHealthy(ctx); err != nil {
		return err
	}
	return e.cluster.demandLogin(ctx)
}

// checkHealthy demands that clients are served, and that a majority agrees. The port is open before that, and a client
// that connects has to wait.
func (e *EtcdServer) checkHealthy(ctx context.Context) error {
	_, err := e.get(ctx, "/health")
	return err
}

// AwaitHealthy waits until it serves its clients. For a node that means that it has found a majority.
func (e *EtcdServer) AwaitHealthy() error {
	return e.failed("await health", poll(e.checkHealthy))
}

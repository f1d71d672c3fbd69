package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// etcdVersion is the one that `make servers` builds.
const etcdVersion = "v3.7.3"

// findEtcd finds the etcd that was built into the cache, or that HOLDFAST_ETCD names: as the tests do.
func findEtcd() (string, error) {
	if path := os.Getenv("HOLDFAST_ETCD"); path != "" {
		return exec.LookPath(path)
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(home, ".cache")
	}
	return exec.LookPath(filepath.Join(cache, "holdfast", "servers", "etcd-"+etcdVersion))
}

// An etcdCluster is an etcd of our own, of one node or of several, in a temp folder and on free loopback ports. Nothing
// else is set but what serverSettings say.
type etcdCluster struct {
	settings serverSettings
	dir      string
	nodes    []*etcdNode
	client   *clientv3.Client
	version  string
	counts   etcdCounts // as of the last look
}

func startEtcd(ctx context.Context, set serverSettings) (site, error) {
	program, err := findEtcd()
	if err != nil {
		return nil, fmt.Errorf("%w; to build it: make servers", err)
	}
	return startServer(ctx, "etcd", func(dir string) (site, error) {
		c := &etcdCluster{settings: set, dir: dir}
		if err := c.start(ctx, program); err != nil {
			c.end()
			return nil, err
		}
		return c, nil
	})
}

// start starts all nodes, and waits for them: none serves before a majority is there.
func (c *etcdCluster) start(ctx context.Context, program string) error {
	var addrs, initial []string
	for i := range c.settings.nodes {
		n, err := newEtcdNode(c.dir, fmt.Sprintf("node%d", i+1))
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, n)
		addrs = append(addrs, n.addr)
		initial = append(initial, n.name+"=http://"+n.peer)
	}
	token := rand.Text() // who shows it is ours
	for _, n := range c.nodes {
		err := n.start(program,
			"--initial-cluster", strings.Join(initial, ","), "--initial-cluster-token", token,
			fmt.Sprintf("--unsafe-no-fsync=%t", c.settings.noFsync))
		if err != nil {
			return err
		}
	}
	for _, n := range c.nodes {
		err := awaitReady(ctx, n.proc, n.log(), func(ctx context.Context) error { return n.check(ctx, token) })
		if err != nil {
			return err
		}
	}
	return c.connect(ctx, addrs)
}

func (c *etcdCluster) connect(ctx context.Context, addrs []string) (err error) {
	c.client, err = clientv3.New(clientv3.Config{Endpoints: addrs, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	status, err := c.client.Status(ctx, addrs[0])
	if err != nil {
		return err
	}
	c.version = status.Version
	return nil
}

// Fresh removes all keys, and what etcd remembers of their past.
func (c *etcdCluster) Fresh(ctx context.Context) (string, error) {
	where := strings.Join(c.client.Endpoints(), ",")
	removed, err := c.client.Delete(ctx, "\x00", clientv3.WithFromKey())
	if err != nil {
		return where, err
	}
	_, err = c.client.Compact(ctx, removed.Header.Revision, clientv3.WithCompactPhysical())
	if errors.Is(err, rpctypes.ErrCompacted) {
		err = nil // nothing was written since the last time
	}
	return where, err
}

// end ends what there is of the cluster.
func (c *etcdCluster) end() {
	if c.client != nil {
		_ = c.client.Close() // its servers end too
	}
	for _, n := range c.nodes {
		if n.proc != nil {
			n.proc.kill()
		}
	}
}

func (c *etcdCluster) Close() error {
	c.end()
	return os.RemoveAll(c.dir)
}

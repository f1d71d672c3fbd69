package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/servers"
)

// zooKeeperTick is that of ZooKeeper's own sample configuration.
const zooKeeperTick = 2 * time.Second

// zooKeeperServers are a ZooKeeper of our own, of one node or of several.
type zooKeeperServers struct {
	settings serverSettings
	*servers.ZooKeeperServers
	ourOwn
	session zooKeeperSession
}

func startZooKeeper(ctx context.Context, set serverSettings) (site, error) {
	z := &zooKeeperServers{settings: set}
	return z.start(ctx, z, func(t testing.TB) error {
		forceSync := servers.Args("forceSync=yes")
		if set.noFsync {
			forceSync = servers.Args("forceSync=no")
		}
		z.ZooKeeperServers = servers.ZooKeeperEnsemble(t, max(set.nodes, 1), servers.Tick(zooKeeperTick), forceSync)
		said, err := z.Nodes[0].Command(ctx, "srvr")
		if err == nil {
			_, said, _ = strings.Cut(said, "version: ")
			z.version, _, _ = strings.Cut(said, "-")
			z.session, err = openZooKeeper(ctx, z.where(), lockTTL)
		}
		return err
	})
}

func (z *zooKeeperServers) where() string { return strings.Join(z.Endpoints(), ",") }

// Fresh removes all nodes, also those of sessions that were killed.
func (z *zooKeeperServers) Fresh(context.Context) (string, error) {
	children, _, err := z.session.Children("/")
	for _, child := range children {
		if child != "zookeeper" {
			err = errors.Join(err, z.remove("/"+child))
		}
	}
	return z.where(), err
}

// remove removes a node with all that is under it. What others remove meanwhile is no matter.
func (z *zooKeeperServers) remove(path string) error {
	children, _, err := z.session.Children(path)
	for _, child := range children {
		err = errors.Join(err, z.remove(path+"/"+child))
	}
	if err == nil {
		err = z.session.Delete(path, -1)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// Usage adds up what the nodes say: packets from clients, which are requests and pings, and processor time.
func (z *zooKeeperServers) Usage(ctx context.Context) (usage, error) {
	u := usage{known: true}
	for _, node := range z.Nodes {
		said, err := node.Command(ctx, "mntr")
		if err != nil {
			return u, err
		}
		_, received, _ := strings.Cut(said, "zk_packets_received\t")
		received, _, _ = strings.Cut(received, "\n")
		n, err := strconv.ParseInt(received, 10, 64)
		if err != nil {
			return u, fmt.Errorf("ZooKeeper does not say how many packets it received: %w", err)
		}
		u.commands += n
		if err := u.addCPU(node.Pid(), false); err != nil {
			return u, err
		}
	}
	return u, nil
}

// About says which version it is, and whether it waits for its disk.
func (z *zooKeeperServers) About() string {
	fsync := "with fsync, as it comes"
	if z.settings.noFsync {
		fsync = "without fsync (forceSync=no)"
	}
	return fmt.Sprintf("ZooKeeper %s, %s, on loopback, %s", z.version, plural(len(z.Nodes), "node"), fsync)
}

func (z *zooKeeperServers) Close() error { return errors.Join(z.session.Close(), z.ourOwn.Close()) }

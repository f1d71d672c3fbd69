package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
)

// consulServers are a Consul of our own, of one server or of several.
type consulServers struct {
	*servers.ConsulServers
	ourOwn
}

func startConsul(ctx context.Context, set serverSettings) (site, error) {
	c := &consulServers{}
	return c.start(ctx, c, func(t testing.TB) error {
		c.ConsulServers = servers.ConsulCluster(t, max(set.nodes, 1))
		var self struct{ Config struct{ Version string } }
		err := c.call(ctx, http.MethodGet, "/v1/agent/self", &self)
		c.version = self.Config.Version
		return err
	})
}

func (c *consulServers) call(ctx context.Context, method, path string, out any) error {
	return c.Nodes[0].Call(ctx, method, path, nil, out)
}

// Fresh removes all keys, and then all sessions, also those of workers that were killed. A session that still has keys
// when it ends would keep others from them for a while.
func (c *consulServers) Fresh(ctx context.Context) (string, error) {
	where := strings.Join(c.Endpoints(), ",")
	var sessions []struct{ ID string }
	err := errors.Join(
		c.call(ctx, http.MethodDelete, "/v1/kv/?recurse", nil),
		c.call(ctx, http.MethodGet, "/v1/session/list?consistent", &sessions),
	)
	for _, session := range sessions {
		err = errors.Join(err, c.call(ctx, http.MethodPut, "/v1/session/destroy/"+session.ID, nil))
	}
	return where, err
}

// Usage adds up what the servers say: requests of clients that they have answered, but for those that ask for this, and
// processor time.
func (c *consulServers) Usage(ctx context.Context) (usage, error) {
	u := usage{known: true, calls: map[string]int64{}}
	for _, node := range c.Nodes {
		requests, err := node.Requests(ctx)
		if err != nil {
			return u, err
		}
		for request, n := range requests {
			if request != "GET v1_agent_metrics" {
				u.calls[request] += int64(n)
				u.commands += int64(n)
			}
		}
		if err := u.addCPU(node.Pid(), false); err != nil {
			return u, err
		}
	}
	return u, nil
}

// About says which version it is. It always waits for its disk.
func (c *consulServers) About() string {
	return fmt.Sprintf("Consul %s, %s, on loopback, with fsync, as it comes", c.version, plural(len(c.Nodes), "server"))
}

package redisstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/rueidis"
)

// useClient has the cluster use the connections of a client that the caller provided.
func (c *cluster) useClient(client rueidis.Client) {
	c.clients = func(address string) (rueidis.Client, bool, error) {
		return &clientNode{Client: client, cluster: c, address: address}, false, nil
	}
}

// A clientNode is one node of a cluster client that the caller provided. That client learns of new nodes only when it
// is redirected to them, and may replace a node. So each new connection looks the node up in the client again.
type clientNode struct {
	rueidis.Client
	cluster *cluster
	address string
}

// Dedicate returns a connection to the node.
func (n *clientNode) Dedicate() (conn rueidis.DedicatedClient, cancel func()) {
	for _, try := range []func(){func() {}, n.discover} {
		try()
		if node := n.Nodes()[n.address]; node != nil {
			return node.Dedicate()
		}
	}
	return &unknownNode{
		builder: n.B(),
		err:     fmt.Errorf("the client does not know the node %s yet", n.address),
	}, func() {}
}

// discover sends a command through the client for a key on the node. A node that no longer keeps the key redirects the
// client there.
func (n *clientNode) discover() {
	c := n.cluster
	ctx, cancel := context.WithTimeout(c.store.frame.Life(), viewTimeout)
	defer cancel()
	for slot := range c.slots {
		if keeper := c.slots[slot].Load(); keeper != nil && keeper.address == n.address {
			n.Client.Do(ctx, n.B().Exists().Key(c.keysIn(slot).mark).Build())
			return
		}
	}
}

// An unknownNode is a connection to an unknown node. All calls fail.
type unknownNode struct {
	rueidis.DedicatedClient
	builder rueidis.Builder
	err     error
}

// B returns the command builder.
func (u *unknownNode) B() rueidis.Builder { return u.builder }

// DoMulti returns the error for each command.
func (u *unknownNode) DoMulti(_ context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(u.err)}, len(commands))
}

// Close does nothing.
func (u *unknownNode) Close() {}

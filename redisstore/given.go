package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"
)

// give lets a cluster take its clients for nodes from one that was handed in.
func (c *cluster) give(client rueidis.Client) {
	c.clients = func(address string) (rueidis.Client, bool, error) {
		return &givenNode{Client: client, cluster: c, address: address}, false, nil
	}
}

// A givenNode is one node of a cluster's client that was handed in. That client learns of new nodes only when it is
// sent to them, and may drop one and make it anew. So it is asked for the node each time that a connection is made.
type givenNode struct {
	rueidis.Client
	cluster *cluster
	address string
}

// Dedicate makes a connection to the node.
func (n *givenNode) Dedicate() (conn rueidis.DedicatedClient, cancel func()) {
	for _, try := range []func(){func() {}, n.teach} {
		try()
		if node := n.Nodes()[n.address]; node != nil {
			return node.Dedicate()
		}
	}
	return &unknownNode{builder: n.B(), err: fmt.Errorf("the client that was handed in does not know the node %s yet", n.address)}, func() {}
}

// teach asks the client for something that lies on the node. Whoever keeps it no more sends the client there.
func (n *givenNode) teach() {
	c := n.cluster
	ctx, cancel := context.WithTimeout(c.store.frame.Life(), lookPatience)
	defer cancel()
	for slot := range c.slots {
		if keeper := c.slots[slot].Load(); keeper != nil && keeper.address == n.address {
			n.Client.Do(ctx, n.B().Exists().Key(c.keysIn(slot).mark).Build())
			return
		}
	}
}

// An unknownNode is a connection to a node that is not known, and fails.
type unknownNode struct {
	rueidis.DedicatedClient
	builder rueidis.Builder
	err     error
}

// B makes commands.
func (u *unknownNode) B() rueidis.Builder { return u.builder }

// DoMulti says what is wrong.
func (u *unknownNode) DoMulti(_ context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	results := make([]rueidis.RedisResult, len(commands))
	for i := range results {
		results[i] = rueidis.NewErrorResult(u.err)
	}
	return results
}

// Close does nothing: nothing was opened.
func (u *unknownNode) Close() {}

package redisstore

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// A cluster knows which node keeps which slot, and has the connections to all of them.
//
// The store talks to each node over connections of its own, as it does to a single server: what is known of a
// connection stays true, and a node's end is noticed at once. So it also follows by itself what a node says of a slot
// that it does not have:
//
//   - MOVED: the slot is kept elsewhere. It is asked there.
//   - ASK and TRYAGAIN: the slot is just being moved, key by key. The call waits until that is over. It never goes
//     where ASK points to: there a script would run with the keys that have come so far, and take a line whose claims
//     are still on their way for an empty one. The node that a slot comes from refuses to touch what has gone ahead.
type cluster struct {
	store   *Store
	clients func(address string) (client rueidis.Client, owned bool, err error)
	seeds   []string

	slots   [slotCount]atomic.Pointer[node]
	shelves [slotCount]atomic.Pointer[shelf]

	mu     sync.Mutex
	nodes  map[string]*node // by address; all that slots point to, which change only while this is locked
	look   *look            // under way; nil: none
	closed bool

	names   map[string]string // the addresses of masters, by their IDs
	epoch   int64             // the latest that was heard of
	epochs  [slotCount]int64  // by what right each slot is kept
	doubted time.Time         // since when nobody knows of them; zero: somebody does
	asking  bool              // whether the doubt is being looked into
}

// How calls are repeated while a slot is on its way.
const (
	firstMovePause = 2 * time.Millisecond
	lastMovePause  = 50 * time.Millisecond
	mostMoves      = 16 // that a call follows; nodes that point at each other must agree some time
)

// How often the cluster is asked who has a node's place while that cannot be reached: from the first to the last, doubling.
const (
	firstAttention = 200 * time.Millisecond // a connection takes less, unless something is wrong
	lastAttention  = 500 * time.Millisecond
)

var (
	errMoving = errors.New("the slot of this name is being moved to another node")
	errNoNode = errors.New("no node of the cluster keeps the slot of this name")
)

func (s *Store) newCluster(seeds []string, clients func(string) (rueidis.Client, bool, error)) *cluster {
	return &cluster{store: s, seeds: seeds, clients: clients, nodes: map[string]*node{}}
}

// shelf has the keys for many names that lie in a slot.
func (c *cluster) shelf(slot int) *shelf {
	if at := c.shelves[slot].Load(); at != nil {
		return at
	}
	at := c.store.keys.shelfIn(slot, c.store.channel)
	c.shelves[slot].Store(at)
	return at
}

// node is the node at an address. c.mu is locked.
func (c *cluster) node(address string) (*node, error) {
	if n := c.nodes[address]; n != nil {
		return n, nil
	}
	if c.closed {
		return nil, errUnplugged
	}
	client, owned, err := c.clients(address)
	if err != nil {
		return nil, err
	}
	n := c.store.newNode(address, client, owned)
	c.nodes[address] = n
	c.store.frame.Go(func() { c.attend(n) })
	return n, nil
}

// attend stays connected to a node until that is closed. While it is not, it looks around again and again: if another
// has the node's place, the node is closed, and whoever waits for a connection to it goes on with that one. So nobody
// waits for a host that is gone until an attempt to reach it has failed.
func (c *cluster) attend(n *node) {
	for patience := firstAttention; ; {
		ctx, cancel := context.WithTimeout(c.store.frame.Life(), patience)
		if w, err := n.commands.Get(ctx); err == nil {
			select {
			case <-w.Dead():
			case <-c.store.frame.Life().Done():
			}
			patience = firstAttention
		} else {
			patience = min(2*patience, lastAttention)
		}
		<-ctx.Done() // also where it failed at once
		cancel()
		if c.store.frame.Life().Err() != nil || !c.has(n) {
			return
		}
		c.refresh(c.store.frame.Life()) //nolint:errcheck // it is done again until the node is there, or closed
	}
}

// has says whether a node is one of the cluster's, as far as is known.
func (c *cluster) has(n *node) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[n.address] == n
}

// wireNow is a node's connection for commands, if there is one.
func (n *node) wireNow() *wire {
	if n == nil {
		return nil
	}
	if w, ok := n.commands.Live(); ok {
		return w
	}
	return nil
}

// keeper is the node that keeps a slot, as far as is known.
func (c *cluster) keeper(ctx context.Context, slot int) (*node, error) {
	if n := c.slots[slot].Load(); n != nil {
		return n, nil
	}
	if err := c.refresh(ctx); err != nil {
		return nil, err
	}
	if n := c.slots[slot].Load(); n != nil {
		return n, nil
	}
	return nil, errNoNode
}

// masters are the nodes that keep slots which others have kept so far. It notes that they do now.
func (c *cluster) masters(kept *[slotCount]*node) (nodes []*node) {
	seen := map[*node]bool{nil: true}
	for i := range c.slots {
		n := c.slots[i].Load()
		if n != kept[i] && !seen[n] {
			seen[n] = true
			nodes = append(nodes, n)
		}
		kept[i] = n
	}
	return nodes
}

// connectAll connects to all masters. It says what was wrong with each.
func (c *cluster) connectAll(ctx context.Context) []error {
	var all sync.WaitGroup
	masters := c.masters(&[slotCount]*node{})
	errs := make([]error, len(masters))
	for i, n := range masters {
		all.Go(func() { _, errs[i] = n.commands.Get(ctx) })
	}
	all.Wait()
	return errs
}

// again says whether a call about a slot is to be made again, after an attempt over w that failed; w is nil if there was
// no connection, so that nothing was sent. It waits as long as makes sense before that.
func (c *cluster) again(ctx context.Context, slot int, w *wire, err error, attempt int) bool {
	if ctx.Err() != nil || c.store.frame.Closed() || attempt >= mostMoves && !isMoving(err) {
		return false
	}
	if w == nil && errors.Is(err, errUnplugged) {
		return true // the node was left meanwhile, and another has its slots
	}
	said, refused := rueidis.IsRedisErr(err)
	if !refused {
		before := c.slots[slot].Load()
		looked := c.refresh(ctx) // also if the call may have been carried out: who comes next is to find the right node
		return w == nil && looked == nil && c.slots[slot].Load() != before
	}
	if said.IsClusterDown() { // it may be cut off, and another has its place
		before := c.slots[slot].Load()
		return c.refresh(ctx) == nil && c.slots[slot].Load() != before
	}
	if address, moved := said.IsMoved(); moved {
		if w != nil {
			w.depart(slot)
		}
		return c.moved(ctx, slot, address) && pause(ctx, firstMovePause<<min(attempt, 3))
	}
	return isMoving(err) && pause(ctx, min(firstMovePause<<min(attempt, 8), lastMovePause))
}

// isMoving says whether a node refuses because the slot is on its way. In a script it says so in other words: a key
// that the script has emptied would now be made elsewhere.
func isMoving(err error) bool {
	said, ok := rueidis.IsRedisErr(err)
	if !ok {
		return false
	}
	_, ask := said.IsAsk()
	return ask || said.IsTryAgain() || strings.Contains(said.Error(), "access a non local key")
}

// isMoved says whether a node refuses because another keeps the slot.
func isMoved(err error) bool {
	said, ok := rueidis.IsRedisErr(err)
	if !ok {
		return false
	}
	_, moved := said.IsMoved()
	return moved
}

// pause waits, unless ctx would be done meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return false
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// moved goes where a node says that a slot is kept. An address that is not known may be another name for a known node, and
// much may have changed with it: so the cluster is asked first, and believed if it knows of the move.
func (c *cluster) moved(ctx context.Context, slot int, address string) bool {
	before := c.slots[slot].Load()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "" && before != nil { // it is the one that this node is reached by
		host, _, _ = net.SplitHostPort(before.address)
		address = net.JoinHostPort(host, port)
	}
	c.mu.Lock()
	known := c.nodes[address] != nil
	c.mu.Unlock()
	if !known {
		if c.refresh(ctx) == nil && c.slots[slot].Load() != before {
			return true
		}
		if host == "" || host == "?" { // it has no name, and the cluster wants it to be called by one
			return false
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.node(address)
	if err == nil {
		c.slots[slot].Store(n)
	}
	return err == nil
}

// close ends all connections.
func (c *cluster) close() {
	c.mu.Lock()
	c.closed = true
	nodes := c.nodes
	c.mu.Unlock()
	var all sync.WaitGroup
	for _, n := range nodes {
		all.Go(n.close)
	}
	all.Wait()
}

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store"
)

// A cluster is the topology of a cluster: which node keeps which slot, and the connections to all nodes.
//
// The store has connections of its own to each node, as to a single server: what is known of a connection stays true,
// and the end of a node is noticed at once. So it also handles by itself the replies of a node for a slot that it does
// not have:
//
//   - MOVED: the slot is kept elsewhere. The call is sent there.
//   - ASK and TRYAGAIN: the slot is being moved, key by key. The call waits until that is over. It never goes
//     where ASK points to: there a script would run with the keys that have come so far, and take a queue whose claims
//     are still on their way for an empty one. The node that a slot comes from refuses to touch what has gone ahead.
type cluster struct {
	store   *base
	clients func(address string) (client rueidis.Client, owned bool, err error)
	seeds   []string

	slots [slotCount]atomic.Pointer[node]
	keys  [slotCount]atomic.Pointer[slotKeys]

	mu         sync.Mutex
	nodes      map[string]*node // by address; all that slots point to, which change only while this is locked
	refreshing *viewRefresh     // in progress; nil: none
	closed     bool

	names     map[string]string // the addresses of masters, by their IDs
	epoch     int64             // the latest that is known
	epochs    [slotCount]int64  // with which epoch each slot is kept
	doubted   time.Time         // since when no node knows of these epochs; zero: a node does
	resolving bool              // whether the doubt is being resolved
}

// How calls are retried while a slot is being moved.
const (
	firstMovePause = 2 * time.Millisecond
	lastMovePause  = 50 * time.Millisecond
	maxMoves       = 16 // that a call follows; nodes that redirect to each other must agree eventually
)

// How often the view of the cluster is refreshed while a node cannot be reached: from the first to the last, doubling.
const (
	firstRefresh = 200 * time.Millisecond // a connection takes less, unless something is wrong
	lastRefresh  = 500 * time.Millisecond
)

var (
	errMoving = errors.New("the slot of this name is being moved to another node")
	errNoNode = errors.New("no node of the cluster keeps the slot of this name")

	errDeparted = errors.New("the slot has been kept elsewhere meanwhile")
)

// newCluster returns a cluster that is found through the seeds. clients returns the client for an address, and whether
// the store owns it. It does not connect yet.
func (b *base) newCluster(seeds []string, clients func(string) (rueidis.Client, bool, error)) *cluster {
	return &cluster{store: b, seeds: seeds, clients: clients, nodes: map[string]*node{}}
}

// begin reads which node keeps which slot, and connects to all masters. One that is down is not an error.
func (c *cluster) begin(ctx context.Context) error {
	if err := c.refresh(ctx); err != nil {
		return err
	}
	masters := c.masters(&[slotCount]*node{})
	errs := make([]error, len(masters))
	var all sync.WaitGroup
	for i, n := range masters {
		all.Go(func() { _, errs[i] = n.commands.Get(ctx) })
	}
	all.Wait()
	for _, err := range errs {
		if err == nil {
			continue
		}
		if fault := c.store.openFault(ctx, err, true); store.Final(fault) {
			return fault
		}
	}
	return nil
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

func (c *cluster) keysFor(key string) *slotKeys { return c.keysIn(slotOf(key)) }

// keysIn returns the keys of a slot.
func (c *cluster) keysIn(slot int) *slotKeys {
	if at := c.keys[slot].Load(); at != nil {
		return at
	}
	at := c.store.keys.in(slot, c.store.channel)
	if !c.keys[slot].CompareAndSwap(nil, at) {
		at = c.keys[slot].Load()
	}
	return at
}

func (c *cluster) connect(ctx context.Context, at *slotKeys, grants bool) (*connection, error) {
	n, err := c.nodeOf(ctx, at.slot)
	if err != nil {
		return nil, err
	}
	return n.connect(ctx, grants)
}

// arrive makes sure that the mark of the slot is high enough. Before the first slot it checks that the node supports
// the scripts.
func (c *cluster) arrive(ctx context.Context, w *connection, at *slotKeys) error {
	if w.visits.hasArrived(at.slot) {
		return nil
	}
	if !w.visits.probed.Load() {
		if err := c.store.probe(ctx, w, at, ""); err != nil {
			return err
		}
		w.visits.probed.Store(true)
	}
	err := c.store.arrive(ctx, w, at)
	if err == nil {
		w.visits.arrive(at.slot)
	}
	return err
}

func (c *cluster) prepare(n *node, w *connection, server *Server) error {
	w.visits = &visits{since: time.Now()}
	if n.inspected.Load() {
		return nil
	}
	err := c.store.inspect(server, n.address)
	n.inspected.Store(err == nil)
	return err
}

func (c *cluster) listen(n *node, w *connection) error {
	n.pushes.Tasks.Go(func() {
		<-w.Dead()
		c.store.frame.Push(store.Everyone, store.Status{})
	})
	return nil
}

// each calls visit for all masters. A master that acquired slots meanwhile is visited once more. If visit fails for a
// master that was replaced, that is not an error: the node that replaced it is visited.
func (c *cluster) each(ctx context.Context, visit func(*node) error) error {
	var done [slotCount]*node // who kept each slot when it was visited
	for range maxMoves {
		if err := c.refresh(ctx); err != nil {
			return err
		}
		changed := c.masters(&done)
		for _, n := range changed {
			err := visit(n)
			if err != nil && (errors.Is(err, errStopped) || c.refresh(ctx) != nil || c.has(n)) {
				return err
			}
		}
		if len(changed) == 0 {
			break
		}
	}
	return nil
}

// node is the node at an address. c.mu is locked.
func (c *cluster) node(address string) (*node, error) {
	if n := c.nodes[address]; n != nil {
		return n, nil
	}
	if c.closed {
		return nil, rediswire.ErrNotInUse
	}
	client, owned, err := c.clients(address)
	if err != nil {
		return nil, err
	}
	n := c.store.newNode(address, client, owned)
	c.nodes[address] = n
	c.store.frame.Go(func() { c.stayConnected(n) })
	return n, nil
}

// stayConnected stays connected to a node until that is closed. While it is not connected, it refreshes the view
// repeatedly: if another node has taken its slots, the node is closed, and calls that wait for a connection to it
// continue with the other one. So no call waits until the attempt to connect to a host that is gone has failed.
func (c *cluster) stayConnected(n *node) {
	life := c.store.frame.Life()
	for patience := firstRefresh; ; {
		ctx, cancel := context.WithTimeout(life, patience)
		if w, err := n.commands.Get(ctx); err == nil {
			select {
			case <-w.Dead():
			case <-life.Done():
			}
			patience = firstRefresh
		} else {
			patience = min(2*patience, lastRefresh)
		}
		<-ctx.Done() // even if it failed at once
		cancel()
		if life.Err() != nil || !c.has(n) {
			return
		}
		c.refresh(life) //nolint:errcheck // it is repeated until the node is connected, or closed
	}
}

// has reports whether a node belongs to the cluster, as far as is known.
func (c *cluster) has(n *node) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[n.address] == n
}

// nodeOf returns the node that keeps a slot, as far as is known. If none is known, it reads the cluster's view first.
func (c *cluster) nodeOf(ctx context.Context, slot int) (*node, error) {
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

// masters returns the nodes that keep slots which other nodes kept before, by kept, and updates kept.
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

func (c *cluster) retry(ctx context.Context, at *slotKeys, w *connection, err error, attempt int) error {
	switch {
	case c.shouldRetry(ctx, at.slot, w, err, attempt):
		return nil
	case isMoving(err) || isMoved(err):
		return fmt.Errorf("%w: %w", errMoving, err)
	}
	return err
}

// shouldRetry reports whether to retry a call for a slot after an attempt over w that failed; w is nil if there was no
// connection, so that nothing was sent. It waits as long as makes sense before a retry.
func (c *cluster) shouldRetry(ctx context.Context, slot int, w *connection, err error, attempt int) bool {
	if ctx.Err() != nil || c.store.frame.Closed() || attempt >= maxMoves && !isMoving(err) {
		return false
	}
	if w == nil && errors.Is(err, rediswire.ErrNotInUse) {
		return true // the node was closed meanwhile, and another has its slots
	}
	if errors.Is(err, errDeparted) {
		w.visits.depart(slot)
		return true
	}
	said, refused := rediswire.IsRefusal(err)
	if !refused {
		before := c.slots[slot].Load()
		looked := c.refresh(ctx) // even if the call may have been carried out: the next call needs the right node
		return w == nil && looked == nil && c.slots[slot].Load() != before
	}
	if said.IsClusterDown() { // it may be cut off, and another node has its slots
		before := c.slots[slot].Load()
		return c.refresh(ctx) == nil && c.slots[slot].Load() != before
	}
	if address, moved := said.Moved(); moved {
		if w != nil {
			w.visits.depart(slot)
		}
		return c.moved(ctx, slot, address) && pause(ctx, firstMovePause<<min(attempt, 3))
	}
	return isMoving(err) && pause(ctx, min(firstMovePause<<min(attempt, 8), lastMovePause))
}

// isMoving reports whether a node refuses because the slot is being moved. In a script the error has another text: a
// key that the script has emptied would now be created elsewhere.
func isMoving(err error) bool {
	said, _ := rediswire.IsRefusal(err) // otherwise empty
	return said.IsAsk() || said.IsTryAgain() || strings.Contains(said.Error(), "access a non local key")
}

// isMoved reports whether a node refuses because another keeps the slot.
func isMoved(err error) bool {
	said, _ := rediswire.IsRefusal(err) // otherwise empty
	_, moved := said.Moved()
	return moved
}

// pause waits for d, and reports false if ctx is or would be done meanwhile.
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

// moved follows a redirection of a slot to an address. An unknown address may be another name of a known node, and more
// may have changed with it: so the view is refreshed first, and believed if it has the move.
func (c *cluster) moved(ctx context.Context, slot int, address string) bool {
	before := c.slots[slot].Load()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "" && before != nil { // the host of this node
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
		if host == "" || host == "?" { // it has no name, and the cluster prefers names
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

// hear subscribes to the channel of a slot at the node that keeps it now.
func (c *cluster) hear(ctx context.Context, at *slotKeys) (already bool, err error) {
	for attempt := 0; ; attempt++ {
		var w *connection
		if w, already, err = c.subscribe(ctx, at); err == nil {
			return already, nil
		}
		if _, said := rediswire.IsRefusal(err); !said {
			w = nil // to subscribe twice does no harm
		}
		if err := c.retry(ctx, at, w, err, attempt); err != nil {
			return false, err
		}
	}
}

// subscribe subscribes to the channel of a slot, and checks that the user may publish to it.
func (c *cluster) subscribe(ctx context.Context, at *slotKeys) (w *connection, already bool, err error) {
	n, err := c.nodeOf(ctx, at.slot)
	if err != nil {
		return nil, false, err
	}
	if w, err = n.pushes.Get(ctx); err != nil {
		return nil, false, err
	}
	if w.topics.has(at.topic) {
		return w, true, nil
	}
	if err := w.Do(ctx, w.B().Ssubscribe().Channel(at.topic).Build()).Error(); err != nil {
		return w, false, err
	}
	commands, err := n.commands.Get(ctx)
	if err != nil {
		return nil, false, err
	}
	return commands, false, commands.Do(ctx, commands.B().Spublish().Channel(at.topic).Message("").Build()).Error()
}

// topics are the channels that a connection for pushes is subscribed to in a cluster.
type topics struct {
	mu    sync.Mutex
	heard map[string]bool
}

// note handles a notification about a subscription. It reports whether the server has ended one, as it does when a slot
// is moved to another node.
func (t *topics) note(of rueidis.PubSubSubscription) (ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch of.Kind {
	case "ssubscribe":
		if t.heard == nil {
			t.heard = map[string]bool{}
		}
		t.heard[of.Channel] = true
	case "sunsubscribe":
		ended = t.heard[of.Channel]
		delete(t.heard, of.Channel)
	}
	return ended
}

// has reports whether the connection is subscribed to a channel.
func (t *topics) has(topic string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.heard[topic]
}

// visits are what was done for the slots of a node over one connection. The slots of a node change while the connection
// lives.
type visits struct {
	since   time.Time
	probed  atomic.Bool                   // the node supports the scripts
	arrived [slotCount / 64]atomic.Uint64 // one bit for each slot whose mark was checked
	joins   [slotCount]atomic.Int64       // when a slot was last joined in, after since
}

// arrive notes that the mark of a slot was checked over this connection.
func (v *visits) arrive(slot int) { v.arrived[slot/64].Or(1 << (slot % 64)) }

// hasArrived reports whether the mark of a slot was checked over this connection.
func (v *visits) hasArrived(slot int) bool { return v.arrived[slot/64].Load()&(1<<(slot%64)) != 0 }

// depart notes that the node does not have the slot any more. If the slot comes back, its mark has to be checked again.
// A connection for pushes, with nil, has nothing to note.
func (v *visits) depart(slot int) {
	if v != nil {
		v.arrived[slot/64].And(^uint64(1 << (slot % 64)))
	}
}

// shortestReign is less than it takes a node to become a replica, and the master again without the data of its own
// master.
const shortestReign = time.Second

// appendPace appends the argument of join.lua for the slot: "calm" if the last Join there was a moment ago, so that the
// node has kept the slot without interruption since then, otherwise "idle". For a single server, with nil, it appends
// nothing.
func (v *visits) appendPace(args []string, slot int, now time.Time) []string {
	switch {
	case v == nil:
		return args
	case now.Sub(v.since)-time.Duration(v.joins[slot].Load()) < shortestReign:
		return append(args, "calm")
	}
	return append(args, "idle")
}

// joined notes that a Join was sent at a time and had this response. It returns errDeparted if the slot was kept
// elsewhere without a redirection on this connection.
func (v *visits) joined(slot int, sent time.Time, answer rediswire.Reply) error {
	if v == nil {
		return nil
	}
	if word, _ := answer.Text(); word == "run" {
		return errDeparted
	}
	v.joins[slot].Store(int64(sent.Sub(v.since)))
	return nil
}

package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
)

// A viewRefresh reads from the cluster which node keeps which slot. All callers at the same time wait for the same one.
type viewRefresh struct {
	done chan struct{}
	err  error
}

// refresh reads which node keeps which slot.
func (c *cluster) refresh(ctx context.Context) error {
	c.mu.Lock()
	l := c.refreshing
	if l == nil {
		if c.closed {
			c.mu.Unlock()
			return rediswire.ErrNotInUse
		}
		l = &viewRefresh{done: make(chan struct{})}
		c.refreshing = l
		c.store.frame.Go(func() {
			l.err = c.readView()
			c.mu.Lock()
			c.refreshing = nil
			c.mu.Unlock()
			close(l.done)
		})
	}
	c.mu.Unlock()
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

const (
	maxQueried  = 8               // nodes that are queried at once
	viewTimeout = 2 * time.Second // how long a node may take to respond
	// How long the others may take when one has responded, if that is more than the first took.
	viewGrace  = 100 * time.Millisecond
	staleAfter = 30 * time.Second // for how long a view is not believed that lacks what was known before
)

// readView queries some nodes, and believes for each slot the node that claims it with the latest epoch: a node that
// was cut off does not know of a failover, and so names an older epoch.
func (c *cluster) readView() error {
	began := time.Now()
	lost := newUnlocated("no node of the cluster says who keeps what", "", c.store.explain)
	f := c.store.frame
	views := queryAll(f.Life(), f, viewTimeout, lost, c.addresses(), c.askView, func([][]claimed) time.Duration {
		return max(viewGrace, time.Since(began))
	})
	if len(views) == 0 {
		return lost
	}
	return c.believe(slices.Concat(views...))
}

// addresses returns the addresses of nodes to query: first those that are connected, then the others and the seeds. A
// node may be queried twice if a seed has another name for it.
func (c *cluster) addresses() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var connected, others []string
	for address, n := range c.nodes {
		if _, live := n.commands.Live(); live {
			connected = append(connected, address)
		} else {
			others = append(others, address)
		}
	}
	for _, address := range c.seeds {
		if c.nodes[address] == nil && !slices.Contains(others, address) {
			others = append(others, address)
		}
	}
	for _, some := range [][]string{connected, others} {
		rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	}
	connected = append(connected, others...)
	return connected[:min(len(connected), maxQueried)]
}

var errStaleView = errors.New("all nodes that can be reached are unaware of the last change of the cluster")

// believe stores which node keeps which slot, and closes the nodes that keep none any more.
//
// What is known of a slot is never reverted: a node that takes it over has a later epoch. If no node knows of that
// epoch for some time, the cluster has been created again.
func (c *cluster) believe(all []claimed) error {
	latest := slices.MaxFunc(all, func(a, b claimed) int { return cmp.Compare(a.epoch, b.epoch) }).epoch
	best := bestOf(all)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return rediswire.ErrNotInUse // the nodes are being closed
	}
	if latest >= c.epoch && !c.isOutdated(best) {
		c.doubted = time.Time{}
	} else if c.doubted.IsZero() {
		c.doubted = time.Now()
		if !c.resolving {
			c.resolving = true
			c.store.frame.Go(c.resolveDoubt)
		}
	}
	if !c.doubted.IsZero() && time.Since(c.doubted) < staleAfter {
		return errStaleView
	}
	c.chooseAddresses(all)
	keepers := map[*claimed]*node{nil: nil}
	keeping := map[*node]bool{}
	for _, its := range best {
		if _, known := keepers[its]; !known {
			n, err := c.node(its.address)
			if err != nil {
				return err
			}
			keepers[its], keeping[n] = n, true
		}
	}
	for slot, its := range best {
		c.slots[slot].Store(keepers[its])
		if its != nil {
			c.epochs[slot] = its.epoch
		}
	}
	for address, n := range c.nodes {
		if !keeping[n] {
			delete(c.nodes, address)
			c.store.frame.Go(n.close)
		}
	}
	c.epoch, c.doubted = latest, time.Time{}
	return nil
}

// bestOf returns the node that claims each slot with the latest epoch.
func bestOf(all []claimed) *[slotCount]*claimed {
	var best [slotCount]*claimed
	for i := range all {
		for _, slots := range all[i].slots {
			for slot := slots.first; slot <= slots.last; slot++ {
				if best[slot] == nil || all[i].epoch > best[slot].epoch {
					best[slot] = &all[i]
				}
			}
		}
	}
	return &best
}

// isOutdated reports whether a slot is known with a later epoch than any node claims it with now. A node that takes a
// slot over has a later epoch than its predecessor. The caller holds c.mu.
func (c *cluster) isOutdated(best *[slotCount]*claimed) bool {
	for slot, its := range best {
		if its != nil && its.epoch < c.epochs[slot] {
			return true
		}
	}
	return false
}

// resolveDoubt refreshes repeatedly while there is a doubt. Otherwise two moments in which no node knew the latest
// epoch would count for the time between them, in which no node was queried.
func (c *cluster) resolveDoubt() {
	life := c.store.frame.Life()
	for pause(life, viewTimeout) {
		c.mu.Lock()
		c.resolving = !c.doubted.IsZero()
		over := !c.resolving
		c.mu.Unlock()
		if over {
			return
		}
		c.refresh(life) //nolint:errcheck // the doubt remains
	}
}

// chooseAddresses chooses one address for each master: the one that it reports itself, that others report, or that was
// reported before. A node may not know yet where another is now, or which name it prefers. The caller holds c.mu.
func (c *cluster) chooseAddresses(all []claimed) {
	names := map[string]string{}
	for _, its := range all {
		if its.named && (its.own || names[its.id] == "") {
			names[its.id] = its.address
		}
	}
	for i, its := range all {
		if names[its.id] == "" && c.names[its.id] != "" {
			names[its.id] = c.names[its.id]
		}
		all[i].address = cmp.Or(names[its.id], its.address)
	}
	c.names = names
}

// claimed is what a master claims to keep, and its epoch: of two that claim the same slot, the one with the greater
// epoch keeps it.
type claimed struct {
	id      string // of the master
	address string
	named   bool // it is the preferred name; false: the reporting node does not know that name
	own     bool // the master reports it itself
	epoch   int64
	slots   []slotRange
}

// A slotRange is a range of slots.
type slotRange struct{ first, last int }

// askView reads the view of the cluster from a node. A node that is not connected gets a connection for this alone.
func (c *cluster) askView(ctx context.Context, address string) ([]claimed, error) {
	c.mu.Lock()
	n := c.nodes[address]
	c.mu.Unlock()
	answers, err := c.askNode(ctx, n, address)
	if err != nil {
		return nil, err
	}
	text, err := answers[0].Text()
	if err != nil {
		return nil, err
	}
	slots, _ := answers[1].List() // a user without the permission addresses nodes by their IPs
	host, _, _ := net.SplitHostPort(address)
	return readView(text, readNames(slots), host)
}

// askNode requests CLUSTER NODES and CLUSTER SLOTS from a node, and returns both replies. Without a live connection to
// the node it makes one to the address for these requests alone.
func (c *cluster) askNode(ctx context.Context, n *node, address string) ([]rediswire.Reply, error) {
	if n != nil {
		if w, live := n.commands.Live(); live {
			return w.DoAll(ctx, []rueidis.Completed{w.B().ClusterNodes().Build(), w.B().ClusterSlots().Build()}), nil
		}
	}
	client, owned, err := c.clients(address)
	if err != nil {
		return nil, err
	}
	if owned {
		stop := context.AfterFunc(ctx, client.Close) // also while it is connecting
		defer func() {
			if stop() {
				client.Close()
			}
		}()
	}
	conn, _ := client.Dedicate()
	defer conn.Close()
	return rediswire.FromRueidis(
		conn.DoMulti(ctx, conn.B().ClusterNodes().Build(), conn.B().ClusterSlots().Build())...), nil
}

// readNames reads the preferred host of each master from the response to CLUSTER SLOTS. Each element is
//
//	FIRST LAST [HOST PORT ID ...] [a replica] ...
//
// The host is an IP, a name, or nothing, as the cluster prefers. Nothing stands for the host that responded, and "?"
// for a name that it does not know.
func readNames(slots []rediswire.Reply) map[string]string {
	names := map[string]string{}
	for _, some := range slots {
		if some, err := some.List(); err == nil && len(some) > 2 {
			if master, err := some[2].List(); err == nil && len(master) > 2 {
				host, _ := master[0].Text() // nil: ""
				id, _ := master[2].Text()
				names[id] = host
			}
		}
	}
	return names
}

// readView parses the response to CLUSTER NODES of a node on this host. Each line is
//
//	ID HOST:PORT@BUSPORT,NAME FLAGS MASTER PING PONG EPOCH LINK SLOT FIRST-LAST ... [SLOT->-ID]
//
// The port is the one for TLS if the connection uses TLS. names has the preferred names of masters by their IDs.
func readView(text string, names map[string]string, host string) (view []claimed, err error) {
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) { // with RESP3 it begins with its format
		words := strings.Fields(line)
		if len(words) <= 8 || !strings.Contains(words[2], "master") || strings.Contains(words[2], "noaddr") {
			continue
		}
		address, _, _ := strings.Cut(words[1], "@")
		colon := strings.LastIndexByte(address, ':') // an IPv6 address has no brackets
		if colon < 0 {
			return nil, fmt.Errorf("%w: %q", rediswire.ErrShape, line)
		}
		h, port := strings.Trim(address[:colon], "[]"), address[colon+1:]
		its := claimed{id: words[0], own: strings.Contains(words[2], "myself")}
		if name, ok := names[its.id]; ok && name != "?" {
			h, its.named = name, true
		}
		its.address = net.JoinHostPort(cmp.Or(h, host), port)
		if its.epoch, err = strconv.ParseInt(words[6], 10, 64); err != nil {
			return nil, fmt.Errorf("%w: %q", rediswire.ErrShape, line)
		}
		for _, word := range words[8:] {
			if strings.HasPrefix(word, "[") {
				continue // it is being moved to another
			}
			slots, ok := readRange(word)
			if !ok {
				return nil, fmt.Errorf("%w: %q", rediswire.ErrShape, line)
			}
			its.slots = append(its.slots, slots)
		}
		view = append(view, its)
	}
	if len(view) == 0 {
		return nil, fmt.Errorf("%w: no node keeps anything", rediswire.ErrShape)
	}
	return view, nil
}

// readRange parses FIRST-LAST, or a single slot. It reports false for any other text.
func readRange(word string) (r slotRange, ok bool) {
	first, last, several := strings.Cut(word, "-")
	if !several {
		last = first
	}
	var err1, err2 error
	r.first, err1 = strconv.Atoi(first)
	r.last, err2 = strconv.Atoi(last)
	return r, err1 == nil && err2 == nil && r.first >= 0 && r.first <= r.last && r.last < slotCount
}

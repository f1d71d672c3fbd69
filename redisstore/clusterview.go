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

// A look is a question to the cluster about who keeps what. All who want to know at the same time wait for one.
type look struct {
	done chan struct{}
	err  error
}

// refresh asks who keeps what.
func (c *cluster) refresh(ctx context.Context) error {
	c.mu.Lock()
	l := c.look
	if l == nil {
		if c.closed {
			c.mu.Unlock()
			return errUnplugged
		}
		l = &look{done: make(chan struct{})}
		c.look = l
		c.store.frame.Go(func() {
			l.err = c.lookAround()
			c.mu.Lock()
			c.look = nil
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
	mostAsked    = 8                      // nodes that are asked at once
	lookPatience = 2 * time.Second        // how long a node may take to answer
	lookLonger   = 100 * time.Millisecond // how long others may take when one has answered, or as long as that took
	oldNews      = 30 * time.Second       // for how long nobody is believed who does not know what others knew
)

// lookAround asks some nodes, and believes of each slot who claims it with the latest right: a node that was cut off
// does not know of a failover, and so names an older one.
func (c *cluster) lookAround() error {
	began := time.Now()
	lost := newLost("no node of the cluster says who keeps what", "")
	f := c.store.frame
	views := survey(f.Life(), f, lookPatience, lost, c.addresses(), c.askView, func([][]claimed) time.Duration {
		return max(lookLonger, time.Since(began))
	})
	if len(views) == 0 {
		return lost
	}
	return c.believe(slices.Concat(views...))
}

// addresses are those of nodes to ask: first those that are connected, then the others and those that the store was
// given. The same node may be asked twice if it is given by another name: seeds are only seeds.
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
	return connected[:min(len(connected), mostAsked)]
}

var errOldNews = errors.New("only nodes can be reached that do not know of the cluster's last change")

// believe takes over who keeps what, and closes the nodes that keep nothing any more.
//
// What is known of a slot is never changed back: whoever takes it over has a later epoch. If nobody knows of that for
// some time, the cluster has been made anew.
func (c *cluster) believe(all []claimed) error {
	latest := slices.MaxFunc(all, func(a, b claimed) int { return cmp.Compare(a.epoch, b.epoch) }).epoch
	best := bestOf(all)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errUnplugged // the nodes are just being closed
	}
	if latest >= c.epoch && !c.knowsBetter(best) {
		c.doubted = time.Time{}
	} else if c.doubted.IsZero() {
		c.doubted = time.Now()
		if !c.asking {
			c.asking = true
			c.store.frame.Go(c.lookInto)
		}
	}
	if !c.doubted.IsZero() && time.Since(c.doubted) < oldNews {
		return errOldNews
	}
	c.settleNames(all)
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

// bestOf is who claims each slot with the latest right.
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

// knowsBetter says whether a slot is known to be kept by a later right than anybody claims it by now. Whoever takes one
// over has a later right than who had it. c.mu is locked.
func (c *cluster) knowsBetter(best *[slotCount]*claimed) bool {
	for slot, its := range best {
		if its != nil && its.epoch < c.epochs[slot] {
			return true
		}
	}
	return false
}

// lookInto asks on while there is a doubt. Otherwise two moments in which nobody knew better would count for the time
// between them, in which nobody was asked.
func (c *cluster) lookInto() {
	life := c.store.frame.Life()
	for pause(life, lookPatience) {
		c.mu.Lock()
		c.asking = !c.doubted.IsZero()
		over := !c.asking
		c.mu.Unlock()
		if over {
			return
		}
		c.refresh(life) //nolint:errcheck // the doubt remains
	}
}

// settleNames lets each master have one address: what it says itself, what others say, or what was said before. A node
// may not have heard yet where another is now, or what it wants to be called. c.mu is locked.
func (c *cluster) settleNames(all []claimed) {
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

// claimed is what a master claims to keep, and by what right: of two who claim the same slot, the one with the greater
// epoch is right.
type claimed struct {
	id      string // of the master
	address string
	named   bool // that is how it wants to be called; otherwise that is not known to who says so
	own     bool // it says so itself
	epoch   int64
	slots   []slotRange
}

// A slotRange is some slots in a row.
type slotRange struct{ first, last int }

// askView asks a node for its view of the cluster. It may be any node: one that is not connected gets a connection for
// this alone.
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
	slots, _ := answers[1].List() // whoever may not ask for it calls nodes by their IPs
	host, _, _ := net.SplitHostPort(address)
	return readView(text, readNames(slots), host)
}

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
	return rediswire.FromRueidis(conn.DoMulti(ctx, conn.B().ClusterNodes().Build(), conn.B().ClusterSlots().Build())...), nil
}

// readNames reads from the answer to CLUSTER SLOTS which host each master wants to be called by. Each element is
//
//	FIRST LAST [HOST PORT ID ...] [a replica] ...
//
// The host is an IP, a name, or nothing, as the cluster prefers: nothing is where the one is that was asked, and "?" a
// name that this one does not know.
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

// readView reads the answer to CLUSTER NODES, from a node on this host. Each line is
//
//	ID HOST:PORT@BUSPORT,NAME FLAGS MASTER PING PONG EPOCH LINK SLOT FIRST-LAST ... [SLOT->-ID]
//
// The port is the one for TLS if that is how it was asked. names are how masters want to be called, by their IDs.
func readView(text string, names map[string]string, host string) (view []claimed, err error) {
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) { // with RESP3 it begins with its format
		words := strings.Fields(line)
		if len(words) <= 8 || !strings.Contains(words[2], "master") || strings.Contains(words[2], "noaddr") {
			continue
		}
		address, _, _ := strings.Cut(words[1], "@")
		colon := strings.LastIndexByte(address, ':') // an IPv6 address has no brackets
		if colon < 0 {
			return nil, fmt.Errorf("%w: %q", errShape, line)
		}
		h, port := strings.Trim(address[:colon], "[]"), address[colon+1:]
		its := claimed{id: words[0], own: strings.Contains(words[2], "myself")}
		if name, ok := names[its.id]; ok && name != "?" {
			h, its.named = name, true
		}
		its.address = net.JoinHostPort(cmp.Or(h, host), port)
		if its.epoch, err = strconv.ParseInt(words[6], 10, 64); err != nil {
			return nil, fmt.Errorf("%w: %q", errShape, line)
		}
		for _, word := range words[8:] {
			if strings.HasPrefix(word, "[") {
				continue // on its way to another
			}
			slots, ok := readRange(word)
			if !ok {
				return nil, fmt.Errorf("%w: %q", errShape, line)
			}
			its.slots = append(its.slots, slots)
		}
		view = append(view, its)
	}
	if len(view) == 0 {
		return nil, fmt.Errorf("%w: no node keeps anything", errShape)
	}
	return view, nil
}

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

package storetest

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A client is one store with its link, and the claims that were made through it.
type client struct {
	store.Store
	t    *trial
	link Link
	id   [10]byte

	mu         sync.Mutex
	contenders map[store.ID]*contender
}

// mutex, reader and semaphore make a claim that has not joined yet.
func (c *client) mutex(name string) *contender {
	return c.contend(name, store.Demand{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders})
}

func (c *client) reader(name string) *contender {
	return c.contend(name, store.Demand{Kind: store.Lock, Units: 1, Limit: store.MaxReaders})
}

func (c *client) semaphore(name string, units, limit int32) *contender {
	return c.contend(name, store.Demand{Kind: store.Semaphore, Units: units, Limit: limit})
}

func (c *client) contend(name string, ask store.Demand) *contender {
	c.mu.Lock()
	defer c.mu.Unlock()
	var id store.ID
	binary.BigEndian.PutUint64(id[8:], uint64(len(c.contenders)+1)) // the count has 48 bits
	copy(id[:], c.id[:])
	owner := &store.Owner{
		ID: id.String(), Label: "storetest", Host: "host", Address: "192.0.2.1", PID: 7,
		Started: time.Date(2020, 2, 2, 2, 2, 2, 0, time.UTC),
	}
	p := &contender{
		client: c,
		claim:  store.Claim{ID: id, Name: name, Demand: ask, TTL: c.t.ttl, Owner: owner},
		pushed: make(chan struct{}, 1),
	}
	c.contenders[id] = p
	return p
}

// onPush wakes the claim that a push is for. What the push says is not believed: Keep tells.
func (c *client) onPush(id store.ID, standing store.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id == store.Everyone {
		for _, p := range c.contenders {
			p.wake()
		}
	} else if p := c.contenders[id]; p != nil {
		if standing.State == store.Held {
			p.granted = append(p.granted, standing.Ticket)
		}
		p.wake()
	}
}

// line is who stands in the line of a name.
func (c *client) line(name string) []store.Entry {
	ctx, cancel := c.t.context()
	defer cancel()
	l, err := c.Queue(ctx, name)
	if err != nil {
		c.t.fatalf("Line of %q: %v", name, err)
	}
	if l.Name != name {
		c.t.errorf("Line of %q calls itself the line of %q", name, l.Name)
	}
	return l.Entries
}

// head is the first place of a line that somebody stands in.
func (c *client) head(name string) store.Entry {
	places := c.line(name)
	if len(places) == 0 {
		c.t.fatalf("the line of %q is empty", name)
	}
	return places[0]
}

// breakTicket breaks as an operator would.
func (c *client) breakTicket(name string, ticket uint64) error {
	ctx, cancel := c.t.context()
	defer cancel()
	return c.Break(ctx, name, ticket)
}

// list is what Names gives, sorted.
func (c *client) list(prefix string) []string {
	ctx, cancel := c.t.context()
	defer cancel()
	var list []string
	for name, err := range c.Names(ctx, prefix) {
		if err != nil {
			c.t.fatalf("Names(%q): %v", prefix, err)
		}
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// reach waits until the server answers again, after a restart or a broken link.
func (c *client) reach() {
	probe := c.mutex(c.t.name("reach"))
	for deadline := time.Now().Add(c.t.patience()); ; time.Sleep(c.t.moment) {
		_, err := probe.askFor(c.t.ttl)
		_, fault := errors.AsType[*store.Fault](err)
		if !fault && !errors.Is(err, context.DeadlineExceeded) {
			return
		}
		if time.Now().After(deadline) {
			c.t.fatalf("the server cannot be reached again: %v", err)
		}
	}
}

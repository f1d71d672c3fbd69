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

// What mutexes and readers ask for.
var (
	exclusive = store.Demand{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders}
	shared    = store.Demand{Kind: store.Lock, Units: 1, Limit: store.MaxReaders}
)

// mutex, reader and semaphore make a claim that has not joined yet.
func (c *client) mutex(name string) *contender { return c.contend(name, exclusive) }

func (c *client) reader(name string) *contender { return c.contend(name, shared) }

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

// onPush wakes the claim that a push is for. The content of the push is not believed: Keep returns the true status.
func (c *client) onPush(id store.ID, status store.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id == store.Everyone {
		for _, p := range c.contenders {
			p.wake()
		}
	} else if p := c.contenders[id]; p != nil {
		if status.State == store.Held {
			p.granted = append(p.granted, status.Ticket)
		}
		p.wake()
	}
}

// entries returns the entries of a queue.
func (c *client) entries(name string) []store.Entry {
	ctx, cancel := c.t.context()
	defer cancel()
	l, err := c.Queue(ctx, name)
	c.t.noError(err, "Queue of %q", name)
	if l.Name != name {
		c.t.errorf("Queue of %q returned the queue of %q", name, l.Name)
	}
	return l.Entries
}

// head returns the first entry of a queue, which must not be empty.
func (c *client) head(name string) store.Entry {
	entries := c.entries(name)
	if len(entries) == 0 {
		c.t.fatalf("the queue of %q is empty", name)
	}
	return entries[0]
}

// breakTicket breaks a claim as an operator would.
func (c *client) breakTicket(name string, ticket uint64) error {
	ctx, cancel := c.t.context()
	defer cancel()
	return c.Break(ctx, name, ticket)
}

// shut closes the client's store, which must not fail.
func (c *client) shut() {
	if err := c.Close(); err != nil {
		c.t.errorf("Close: %v", err)
	}
}

// list returns what Names yields, sorted.
func (c *client) list(prefix string) []string {
	ctx, cancel := c.t.context()
	defer cancel()
	var list []string
	for name, err := range c.Names(ctx, prefix) {
		c.t.noError(err, "Names(%q)", prefix)
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// reach waits until the server responds again after a restart or a broken link.
func (c *client) reach() { c.reachFor(c.t.name("reach")) }

// reach waits until the server that keeps the claim's name responds again: there may be one for each part of the names.
func (p *contender) reach() { p.reachFor(p.claim.Name) }

// reachFor waits until the server that keeps a name responds again.
func (c *client) reachFor(name string) {
	probe := c.mutex(name)
	for deadline := time.Now().Add(c.t.patience()); ; time.Sleep(c.t.moment) {
		_, err := probe.keepWithin(c.t.ttl)
		_, fault := errors.AsType[*store.Fault](err)
		if !fault && !errors.Is(err, context.DeadlineExceeded) {
			return
		}
		if time.Now().After(deadline) {
			c.t.fatalf("the server cannot be reached again: %v", err)
		}
	}
}

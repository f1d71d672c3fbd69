package holdfast

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// closeTimeout bounds how long Close tries to give back what is held. The rest runs out with its ttl.
const closeTimeout = 5 * time.Second

// idsAtOnce is for how many IDs random bytes are drawn together: one by one they would cost as much as the rest of a
// lock.
const idsAtOnce = 64

// leavers is how many releases Close has under way at once.
const leavers = 64

// A Client takes locks in one store. Make one per process and share it: its locks are kept alive together, by
// one timer and in batches. It is safe for many goroutines.
type Client struct {
	store     store.Store
	abilities store.Abilities
	settings  *settings
	logger    *slog.Logger

	start time.Time // what monotonic instants count from

	closed   context.Context // done when Close was called
	close    context.CancelFunc
	finished chan struct{}  // closed when Close is through
	calls    sync.WaitGroup // calls of the store that Close waits for

	mu     sync.Mutex
	random [idsAtOnce * len(store.ID{})]byte
	unused []byte // the end of random, for IDs
	floor  uint64 // the highest ticket seen
	heard  uint64 // how often the store has answered about a claim
	claims map[store.ID]*claim
	relays map[string]*relay // by name, those that Locks of this process share
	owners map[string]*owner // by id, those that have or want something
	keeper keeper
}

// New makes a client of a store. The client closes it. Open is the way by URL.
func New(s store.Store, options ...Option) *Client {
	c := &Client{
		store:  s,
		start:  time.Now(),
		claims: map[store.ID]*claim{},
		relays: map[string]*relay{},
		owners: map[string]*owner{},
	}
	c.closed, c.close = context.WithCancel(context.Background())
	c.finished = make(chan struct{})
	c.keeper.ahead = c.start.UnixNano()
	c.settings = &settings{
		ttl:      DefaultTTL,
		turns:    DefaultTurns,
		turnsFor: DefaultTurnsFor,
		owner:    processOwner(c.start),
	}
	if s == nil {
		c.settings.wrong(fmt.Errorf("%w: New was given no store", ErrBadOption))
	} else {
		c.abilities = s.Abilities()
		s.Notify(c.onPush)
	}
	switch {
	case c.abilities.SessionTTL > 0:
		c.settings.ttl = c.abilities.SessionTTL
	case c.abilities.MaxTTL > 0:
		c.settings.ttl = min(DefaultTTL, c.abilities.MaxTTL)
	}
	c.settings.apply(options, &c.abilities)
	c.logger = c.settings.logger
	return c
}

// Close gives back everything that is held, withdraws everything that waits, and closes the store. Leases are
// over before it begins, and calls that wait in a line return ErrClosed; one that the store has not answered yet
// returns when the store does, or is closed. What cannot be given back within a few seconds runs out with its ttl. A
// second Close waits for the first.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.isClosed() {
		c.mu.Unlock()
		<-c.finished
		return nil
	}
	c.close()
	defer close(c.finished)
	c.stopKeeper()
	var left []*claim
	for _, cl := range c.claims {
		for w := cl.relay.queue.pop(); w != nil; w = cl.relay.queue.pop() {
			w.fail(ErrClosed)
		}
		if cl.phase != joining { // whoever joins leaves by himself
			cl.phase = over // nobody touches it any more
			left = append(left, cl)
		}
	}
	c.mu.Unlock()

	for _, cl := range left {
		for _, l := range append(cl.more, cl.lease) {
			if l != nil {
				l.end(&errClosed)
			}
		}
	}
	if c.store == nil {
		return nil
	}
	c.leaveAll(left)
	return c.store.Close()
}

// leaveAll takes claims out of their lines, and waits for calls that are still under way.
func (c *Client) leaveAll(claims []*claim) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	next := make(chan store.Claim)
	for range min(leavers, len(claims)) {
		c.calls.Go(func() {
			for cl := range next {
				if err := c.store.Leave(ctx, cl); err != nil {
					c.warn("holdfast: not given back by Close; it runs out", "name", cl.Name, "ttl", cl.TTL, "err", err)
				}
			}
		})
	}
	for _, cl := range claims {
		next <- cl.Claim
	}
	close(next)
	finished := make(chan struct{})
	go func() { c.calls.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-ctx.Done():
	}
}

func (c *Client) isClosed() bool { return c.closed.Err() != nil }

// nextID draws an ID that nobody can guess: a stranger who knew that of a waiting claim could forge its grant (rule 7
// of package store).
func (c *Client) nextID() (id store.ID) {
	if len(c.unused) == 0 {
		rand.Read(c.random[:])
		c.unused = c.random[:]
	}
	c.unused = c.unused[copy(id[:], c.unused):]
	return id
}

// see raises the floor.
func (c *Client) see(ticket uint64) { c.floor = max(c.floor, ticket) }

// now is the monotonic clock.
func (c *Client) now() int64 { return int64(time.Since(c.start)) }

// warn logs without keeping anybody waiting: it is called with mu held, and a handler may be slow, or ask this
// very client.
func (c *Client) warn(msg string, args ...any) {
	if c.logger != nil {
		c.calls.Go(func() { c.logger.Warn(msg, args...) })
	}
}

// unshared says that the store has no shared locks, and where there are some.
func (c *Client) unshared() error {
	instead := c.abilities.Instead
	if instead != "" {
		instead = "; " + instead
	}
	return fmt.Errorf("%w: it has no shared locks%s", ErrUnsupported, instead)
}

// failed says what failed.
func (c *Client) failed(op, name string, err error) error {
	return &Error{Op: op, Name: name, Store: c.abilities.Store, Err: err}
}

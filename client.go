package holdfast

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// closeTimeout bounds how long Close tries to give back what is held. The rest runs out with its ttl.
const closeTimeout = 5 * time.Second

// opOpen is the operation of an Error whose Store is a masked URL.
const opOpen = "open"

// leavers is how many releases Close has under way at once.
const leavers = 64

// A Client takes locks in one store. Make one per process and share it: its locks are kept alive together, by
// one timer and in batches. It is safe for many goroutines.
type Client struct {
	store     Store
	abilities Abilities
	settings  *settings

	closed   context.Context // done when Close was called
	close    context.CancelFunc
	finished chan struct{}  // closed when Close is through
	calls    sync.WaitGroup // calls of the store that Close waits for

	mu     sync.Mutex // taken by begin and released by end; guards all that follows
	ids    idSource
	floor  uint64 // the highest ticket seen
	heard  uint64 // how often the store has answered about a claim
	claims map[store.ID]*claim
	queues map[string]*localQueue // by name, those that Locks of this process share
	owners owners
	keeper keeper

	touched []*localQueue // what end has to settle
	served  *request      // whom end has to wake, linked by next
}

// New makes a client of a store. The client closes it. Open is the way by URL.
func New(s Store, options ...Option) *Client {
	now := time.Now()
	c := &Client{
		store:  s,
		claims: map[store.ID]*claim{},
		queues: map[string]*localQueue{},
		owners: owners{},
	}
	c.closed, c.close = context.WithCancel(context.Background())
	c.finished = make(chan struct{})
	c.keeper.client = c
	c.keeper.ahead = wallAhead(now)
	c.settings = &settings{
		ttl:      DefaultTTL,
		turns:    DefaultTurns,
		turnsFor: DefaultTurnsFor,
		owner:    processOwner(now),
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
	c.observeRetries()
	return c
}

// Open connects to the store at a URL and makes a client of it. The store's package has to be imported, for
// what it registers, or package stores, which imports all:
//
//	import _ "github.com/holdfast-go/holdfast/memstore"
//
//	locks, err := holdfast.Open(ctx, "memory:")
//
// Every store's URL can have two parameters. prefix is put before every name, for many tenants on one server. ttl sets
// the default ttl, as in ttl=10s; the option TTL comes before it. Errors never show a password, nor any part of a URL
// that is refused.
func Open(ctx context.Context, url string, options ...Option) (*Client, error) {
	if ctx == nil {
		return nil, &Error{Op: opOpen, Err: ErrNilContext}
	}
	at, err := store.ParseLocation(url)
	if err != nil {
		return nil, &Error{Op: opOpen, Err: err}
	}
	s, err := store.Open(ctx, at)
	if err != nil {
		return nil, &Error{Op: opOpen, Store: at.ShownFor(err), Err: err}
	}
	if at.TTL > 0 && s.Abilities().SessionTTL == 0 { // of a session it is the ttl already, as the server granted it
		options = append([]Option{WithTTL(at.TTL)}, options...)
	}
	c := New(s, options...)
	if c.settings.err != nil {
		c.Close() //nolint:errcheck // the option is what is wrong
		return nil, &Error{Op: opOpen, Store: at.String(), Err: c.settings.err}
	}
	return c, nil
}

// begin takes the mutex. Whatever changes claims or queues does so between begin and end.
func (c *Client) begin() { c.mu.Lock() }

// end does what follows from the changes since begin, in one place: it settles the queues, starts the calls of the
// store that are queued, sets the alarm, releases the mutex, and wakes the callers that got what they waited for.
func (c *Client) end() {
	if len(c.touched) > 0 {
		c.settle()
	}
	c.keeper.launch()
	c.keeper.setAlarm()
	served := c.served
	c.served = nil
	c.mu.Unlock()
	for served != nil {
		r := served
		served = r.next
		close(r.news)
	}
}

// settle settles the queues that were touched.
func (c *Client) settle() {
	for len(c.touched) > 0 { // settling one can touch it again
		last := len(c.touched) - 1
		q := c.touched[last]
		c.touched[last] = nil
		c.touched, q.touched = c.touched[:last], false
		q.settle()
	}
}

// Close gives back everything that is held, withdraws everything that waits, and closes the store. Leases are
// over before it begins, and calls that wait in a line return ErrClosed; one that the store has not answered yet
// returns when the store does, or is closed. What cannot be given back within a few seconds runs out with its ttl. A
// second Close waits for the first.
func (c *Client) Close() error {
	c.begin()
	if c.isClosed() {
		c.end()
		<-c.finished
		return nil
	}
	c.close()
	defer close(c.finished)
	c.keeper.stop()
	var left []*claim
	for _, cl := range c.claims {
		cl.queue.failAll(ErrClosed)
		if cl.phase != joining { // what joins leaves by itself
			cl.phase = over // nobody touches it any more
			left = append(left, cl)
		}
	}
	c.end()

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
	next := make(chan Claim)
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

// leaveLate takes out a claim whose Join was under way when the client was closed. Close waits for it.
func (c *Client) leaveLate(cl Claim) {
	c.calls.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := c.store.Leave(ctx, cl); err != nil {
			c.warn("holdfast: not given back; it runs out", "name", cl.Name, "ttl", cl.TTL, "err", err)
		}
	})
}

func (c *Client) isClosed() bool { return c.closed.Err() != nil }

// pause waits, but not beyond what ctx allows nor beyond Close.
func (c *Client) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-c.closed.Done():
	}
}

// warn logs without keeping anybody waiting: it is called with mu held, and a handler may be slow, or ask this
// very client.
func (c *Client) warn(msg string, args ...any) {
	if log := c.settings.logger; log != nil {
		c.calls.Go(func() { log.Warn(msg, args...) })
	}
}

// lacks returns the error of a call that needs what the store has not.
func (c *Client) lacks(what string) error {
	instead := c.abilities.Alternative
	if instead != "" {
		instead = "; " + instead
	}
	return fmt.Errorf("%w: it has no %s%s", ErrUnsupported, what, instead)
}

// silence turns the error of a call that only this client bounded, by limit, into what it means: the store did not
// answer.
func (c *Client) silence(ctx context.Context, limit time.Duration, err error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &Fault{Store: c.abilities.Store, Err: fmt.Errorf("no answer in %v", limit)}
}

// failed wraps err in an *Error. It returns nil for nil.
func (c *Client) failed(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Name: name, Store: c.abilities.Store, Err: err}
}

// idsAtOnce is for how many IDs random bytes are drawn together: one by one they would cost as much as the rest of a
// lock.
const idsAtOnce = 64

// An idSource draws IDs that nobody can guess: a stranger who knew that of a waiting claim could forge its grant
// (rule 7 of package store).
type idSource struct {
	random [idsAtOnce * len(store.ID{})]byte
	unused []byte // the end of random
}

func (s *idSource) next() (id store.ID) {
	if len(s.unused) == 0 {
		rand.Read(s.random[:])
		s.unused = s.random[:]
	}
	s.unused = s.unused[copy(id[:], s.unused):]
	return id
}

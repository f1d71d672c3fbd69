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

// closeTimeout bounds how long Close tries to release what is held. The rest expires with its ttl.
const closeTimeout = 5 * time.Second

// opOpen is the operation of an Error whose Store is a masked URL.
const opOpen = "open"

// leavers is how many releases Close sends at once.
const leavers = 64

// A Client acquires locks in one store. Make one per process and share it: its leases are renewed together, by one
// timer and in batches. It is safe for use by many goroutines.
type Client struct {
	store     Store
	abilities Abilities
	settings  *settings

	closed   context.Context // done when Close was called
	close    context.CancelFunc
	finished chan struct{}  // closed when Close has returned
	calls    sync.WaitGroup // calls of the store that Close waits for

	mu     sync.Mutex // taken by begin and released by end; guards all that follows
	ids    idSource
	floor  uint64 // the highest ticket seen
	heard  uint64 // how often the store has responded about a claim
	claims map[store.ID]*claim
	queues map[string]*localQueue // by name, those that requests of this process share
	owners owners
	keeper keeper

	touched []*localQueue // the queues that end has to settle
	served  *request      // the requests that end has to wake, linked by next
}

// New returns a client of a store, which the client closes. [Open] opens a store by its URL. A wrong option is an error
// of every call.
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
		c.settings.wrong(fmt.Errorf("%w: the store is nil", ErrBadOption))
	} else {
		c.abilities = s.Abilities()
		if _, ok := s.(store.Detacher); !ok { // a store around another one may have its abilities and not its methods
			c.abilities.Detach = false
		}
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

// Open connects to the store at a URL and returns a client of it. The program has to import the store's package, which
// registers itself, or package stores, which imports all:
//
//	import _ "github.com/holdfast-go/holdfast/memstore"
//
//	locks, err := holdfast.Open(ctx, "memory:")
//
// The URL of every store can have two parameters. prefix is put before every name, for many tenants on one server. ttl
// sets the default ttl, as in ttl=10s; the option WithTTL overrides it.
//
// The error is an *Error. It wraps a *Fault if the store cannot be reached or refuses to work, ErrFormat if its data
// was written by a newer version, and the error of the first wrong option. Errors never show a password, nor any part
// of a URL that is refused.
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
	if at.TTL > 0 && s.Abilities().SessionTTL == 0 { // a session has it already, as the server granted it
		options = append([]Option{WithTTL(at.TTL)}, options...)
	}
	c := New(s, options...)
	if c.settings.err != nil {
		c.Close() //nolint:errcheck // the error of the option matters
		return nil, &Error{Op: opOpen, Store: at.String(), Err: c.settings.err}
	}
	return c, nil
}

// begin locks the mutex. All changes to claims and queues are made between begin and end.
func (c *Client) begin() { c.mu.Lock() }

// end does what follows from the changes since begin: it settles the queues, starts the calls of the store that are
// queued, sets the alarm, unlocks the mutex, and wakes the callers whose wait is over.
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
	for len(c.touched) > 0 { // settling a queue can touch it again
		last := len(c.touched) - 1
		q := c.touched[last]
		c.touched[last] = nil
		c.touched, q.touched = c.touched[:last], false
		q.settle()
	}
}

// Close releases all that is held, withdraws all that waits, and closes the store. Leases end before the first release
// is sent. Calls that wait in a queue return ErrClosed; a call that the store has not responded to returns when the
// store does, or is closed. What cannot be released within a few seconds expires with its ttl. A second Close waits for
// the first and returns nil. The error is that of closing the store.
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
		if cl.phase != joining { // the call that joins also leaves
			cl.phase = over // nothing changes it any more
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

// leaveAll removes claims from their queues, and waits for calls that are still under way.
func (c *Client) leaveAll(claims []*claim) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	next := make(chan *claim)
	for range min(leavers, len(claims)) {
		c.calls.Go(func() {
			for cl := range next {
				if err := c.leave(ctx, cl); err != nil {
					c.warn("holdfast: not released by Close; it will expire", "name", cl.Name, "ttl", cl.TTL, "err",
						err)
				}
			}
		})
	}
	for _, cl := range claims {
		next <- cl
	}
	close(next)
	finished := make(chan struct{})
	go func() { c.calls.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-ctx.Done():
	}
}

// leaveLate removes a claim in the background, with one call: its Join was under way when the client was closed, or it
// was Ping's. Close waits for it.
func (c *Client) leaveLate(cl Claim) {
	c.calls.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := c.store.Leave(ctx, cl); err != nil {
			c.warn("holdfast: not released; it will expire", "name", cl.Name, "ttl", cl.TTL, "err", err)
		}
	})
}

// isClosed reports whether Close has begun.
func (c *Client) isClosed() bool { return c.closed.Err() != nil }

// pause waits for d, or until ctx ends or the client is closed.
func (c *Client) pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	case <-c.closed.Done():
	}
}

// warn logs in the background: it is called with mu held, and a handler may be slow, or use this client.
func (c *Client) warn(msg string, args ...any) {
	if log := c.settings.logger; log != nil {
		c.calls.Go(func() { log.Warn(msg, args...) })
	}
}

// lacks returns the error of a call that needs an ability which the store lacks.
func (c *Client) lacks(what string) error {
	instead := c.abilities.Alternative
	if instead != "" {
		instead = "; " + instead
	}
	return fmt.Errorf("%w: it has no %s%s", ErrUnsupported, what, instead)
}

// silence replaces the error of a call that only this client bounded, by limit, by a Fault: the store did not respond.
func (c *Client) silence(ctx context.Context, limit time.Duration, err error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &Fault{Store: c.abilities.Store, Err: &store.NoResponseError{After: limit}}
}

// failed wraps err in an *Error. It returns nil for nil.
func (c *Client) failed(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Name: name, Store: c.abilities.Store, Err: err}
}

// idsAtOnce is for how many IDs random bytes are drawn together: drawn one by one they would cost as much as the rest
// of a lock.
const idsAtOnce = 64

// An idSource draws IDs that cannot be guessed: another client that knew the ID of a waiting claim could forge its
// grant (rule 7 of package store).
type idSource struct {
	random [idsAtOnce * len(store.ID{})]byte
	unused []byte // the end of random
}

// next returns a new random ID.
func (s *idSource) next() (id store.ID) {
	if len(s.unused) == 0 {
		rand.Read(s.random[:])
		s.unused = s.random[:]
	}
	s.unused = s.unused[copy(id[:], s.unused):]
	return id
}

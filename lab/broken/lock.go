package broken

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/store"
)

// A lock is a broken lock as a textbook shows it, of one client.
type lock interface {
	// tryLock takes the lock if it is free.
	tryLock(ctx context.Context) (bool, error)
	// unlock releases it, or what it mistakes for it.
	unlock(ctx context.Context) error
}

// A doubter is a lock that can detect its own end. The holder of any other lock believes in it until it calls unlock.
type doubter interface{ believes() bool }

// A watcher is a lock that is notified when a retry makes sense. Any other is polled.
type watcher interface {
	await(ctx context.Context) error
}

// A register is what a lock protects: a number that clients read, and then write.
type register interface {
	read(ctx context.Context, token holdfast.Token) (uint64, error)
	// write returns false if the register refused the write.
	write(ctx context.Context, token holdfast.Token, value uint64) (bool, error)
}

// A part is what a player needs to know. It is plain data, so that a player can be a separate process.
type part struct {
	Rung     string
	Holdfast bool          // it has Holdfast's lock, not the broken one
	Player   string        // its name
	Lock     string        // the name of the lock
	Kind     history.Kind  // how it holds the lock
	TTL      time.Duration // of its lock
	Addrs    []string      // of the servers, or the path of a file
	Skew     time.Duration // by how much its wall clock is ahead
	Thread   string        // the name of its thread

	between *gate         // where it stops between two steps of a broken lock; nil: it does not
	stepped *atomic.Int64 // by how much its wall clock has been set since; nil: it is never set
}

// who returns the identity of the player in histories, whether or not it is a separate process.
func (p *part) who() history.Who { return history.Who{Client: p.Player} }

// clock returns the time of the player's wall clock.
func (p *part) clock() time.Time {
	now := time.Now().Round(0).Add(p.Skew)
	if p.stepped != nil {
		now = now.Add(time.Duration(p.stepped.Load()))
	}
	return now
}

// A handle is the lock of a player: a broken lock, or a mutex of Holdfast.
type handle interface {
	acquire(ctx context.Context) error // waits until the lock is held
	release(ctx context.Context) error
	believes() bool
	token() holdfast.Token
	close() error
}

// pollEvery is how often a client of a broken lock tries again. Textbooks do the same.
const pollEvery = 2 * time.Millisecond

// A polled lock is a broken lock whose client retries until it succeeds.
type polled struct{ lock }

func (p polled) acquire(ctx context.Context) error {
	for {
		ok, err := p.tryLock(ctx)
		if err != nil || ok {
			return err
		}
		if w, ok := p.lock.(watcher); ok {
			err = w.await(ctx)
		} else {
			err = pause(ctx, pollEvery)
		}
		if err != nil {
			return err
		}
	}
}

func (p polled) release(ctx context.Context) error { return p.unlock(ctx) }

func (p polled) believes() bool {
	d, ok := p.lock.(doubter)
	return !ok || d.believes()
}

func (p polled) token() holdfast.Token { return 0 }

func (p polled) close() error {
	if c, ok := p.lock.(interface{ close() error }); ok {
		return c.close()
	}
	return nil
}

// A client is Holdfast's lock of one player. Like a process, it has a client of its own.
type client struct {
	*part
	locks *holdfast.Client
	lease *holdfast.Lease
}

func (c *client) acquire(ctx context.Context) (err error) {
	switch c.Kind {
	case history.Shared:
		c.lease, err = c.locks.RWMutex(c.Lock).RLock(ctx)
	default:
		c.lease, err = c.locks.Mutex(c.Lock).Lock(ctx)
	}
	return err
}

// release unlocks. A lease that was lost before is not a failure here: its holder was notified.
func (c *client) release(ctx context.Context) error {
	if err := c.lease.Unlock(ctx); err != nil && !errors.Is(err, holdfast.ErrLost) {
		return err
	}
	return nil
}

func (c *client) believes() bool        { return c.lease.Err() == nil }
func (c *client) token() holdfast.Token { return c.lease.Token() }
func (c *client) close() error          { return c.locks.Close() }

// open returns the lock of a player and what it protects, each nil if its rung has none.
func (p *part) open(ctx context.Context) (hand handle, reg register, err error) {
	r, ok := Find(p.Rung)
	if !ok {
		return nil, nil, errors.New("there is no rung called " + p.Rung)
	}
	if hand, err = p.hire(ctx, r); err == nil && r.register != nil {
		reg, err = r.register(ctx, p)
	}
	return hand, reg, err
}

func (p *part) hire(ctx context.Context, r *Rung) (handle, error) {
	switch {
	case r.broken == nil:
		return nil, nil
	case p.Holdfast:
		locks, err := openPatiently(ctx, r.holdfast(p), r.options)
		if err != nil {
			return nil, err
		}
		return &client{part: p, locks: locks}, nil
	}
	l, err := r.broken(ctx, p)
	if err != nil {
		return nil, err
	}
	return polled{l}, nil
}

// openPatiently opens a client, with a few retries: on a busy machine a server may be slow to respond.
func openPatiently(ctx context.Context, url string, options []holdfast.Option) (locks *holdfast.Client, err error) {
	for range 3 {
		locks, err = holdfast.Open(ctx, url, options...)
		if err == nil || store.Final(err) || ctx.Err() != nil {
			break
		}
	}
	return locks, err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

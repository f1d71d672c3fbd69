package holdfast

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// pingTimeout bounds a Ping whose context has no deadline.
	pingTimeout = 5 * time.Second

	// pingTTL is the ttl of Ping's claim, as far as the store allows. It matters only if the release is lost. It is not
	// shorter, since a store may refuse a grant that arrives after the ttl.
	pingTTL = 5 * time.Second

	// pingPrefix begins the names of Ping's locks, for operators who see one in a listing.
	pingPrefix = "holdfast-ping-"
)

// Ping reports whether locks can be acquired in the store, for health checks. It acquires a lock of a random name and
// releases it, so nil means that the store is reachable, accepts the credentials, and is writable. Ping leaves nothing
// in the store and waits for no other client. If ctx has no deadline, it gives up after 5 seconds.
//
// The error is an *Error. It wraps
//   - ErrClosed, if the client was closed,
//   - a *Fault, if the store is not reachable, did not respond in time, or refuses to work; its Final is true if
//     repeating the call is of no use until an operator intervenes,
//   - ErrFloor or ErrFormat, if the store's data does not allow new locks,
//   - ErrBadTTL or ErrBadOption, if an option of the client is wrong, and ErrNilContext,
//   - the error of ctx, if ctx has ended.
func (c *Client) Ping(ctx context.Context) error {
	k := lock{client: c, err: c.settings.err}
	err := k.usable(ctx)
	if err == nil {
		err = c.ping(ctx)
	}
	return c.failed("ping", "", err)
}

func (c *Client) ping(caller context.Context) error {
	began := time.Now()
	ctx, cancel := context.WithCancel(caller)
	defer cancel()
	defer context.AfterFunc(c.closed, cancel)()
	if _, bounded := caller.Deadline(); !bounded {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, pingTimeout)
		defer stop()
	}

	c.begin()
	if c.isClosed() {
		c.end()
		return ErrClosed
	}
	claim := Claim{
		ID: c.ids.next(), Name: pingPrefix + rand.Text(), Demand: wholeLock, Try: true,
		TTL:   max(min(pingTTL, c.settings.ttl), c.abilities.MinTTL, c.abilities.SessionTTL),
		Floor: c.floor, Owner: c.settings.owner,
	}
	c.calls.Add(1)
	c.end()
	defer c.calls.Done()

	status, err := c.store.Join(ctx, claim)
	if err == nil {
		c.begin()
		c.floor = max(c.floor, status.Ticket)
		c.heard++
		c.end()
		claim.Ticket = status.Ticket
		if status.State != store.Held {
			err = fmt.Errorf("a lock of a random name was not granted: it is %v", status.State)
			err = &Fault{Store: c.abilities.Store, Err: err}
		}
	}
	if store.Final(err) {
		return err // nothing was joined
	}
	left := c.store.Leave(ctx, claim)
	if left != nil && !store.Final(left) {
		c.leaveLate(claim)
	}
	if err == nil {
		err = left
	}
	return c.pingError(caller, ctx, began, err)
}

// pingError replaces the error of a context by what it means: the client was closed, the caller gave up, or the store
// did not respond.
func (c *Client) pingError(caller, ctx context.Context, began time.Time, err error) error {
	waited := time.Since(began).Round(time.Millisecond)
	silent := &Fault{Store: c.abilities.Store, Err: &store.NoResponseError{After: waited}}
	switch {
	case err == nil || ctx.Err() == nil || !errors.Is(err, ctx.Err()):
		return err
	case c.isClosed():
		return ErrClosed
	case errors.Is(caller.Err(), context.DeadlineExceeded):
		return errors.Join(done(caller), silent)
	case caller.Err() != nil:
		return done(caller)
	}
	return silent
}

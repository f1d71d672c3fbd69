package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// A Lease is a lock that is held. It can be used and given back by any goroutine.
//
// It tells the truth when asked: Err of the lease, and Err and Done of its context, compare the clocks with
// Until on every call and, if it is over, end the context before they return. So a process that was paused sees
// the loss when it first asks, before any goroutine of this package has run again.
type Lease struct {
	client *Client
	claim  *claim
	token  Token
	owner  string                       // whom Locks under its context act for; empty: the claim's ID
	parent context.Context              // what its context is derived from
	bound  bool                         // parent's end is its context's end too
	group  bool                         // one of several leases of a MultiLease
	over   func(error)                  // the observer's
	ctx    atomic.Pointer[leaseContext] // nil until somebody asks for it
	ended  atomic.Pointer[error]        // why it is over; nil while it lives
}

// Why a lease is over, by loss or otherwise. The error of a loss also names the lease and its store: see endLeases.
var (
	errUnlocked   = fmt.Errorf("%w: it was given back", ErrNotHeld)
	errDowngraded = fmt.Errorf("%w: it was downgraded", ErrNotHeld)
	errClosed     = ErrClosed
	errRanOut     = fmt.Errorf("%w: its time ran out", ErrLost)
	errNotRenewed = fmt.Errorf("%w: it could not be renewed", ErrLost)
	errWithdrawn  = fmt.Errorf("%w: the store no longer has it", ErrLost)
)

var errPinned = fmt.Errorf("%w: its claim was shown to the store's own guard, which knows no downgrade", ErrDowngrade)

// opHold is the operation that fails when a lease is lost.
const opHold = "hold"

// lease makes l the lease of cl for r. Its context has the values of r's, and its end only if it is bound.
func (c *Client) lease(r *request, l *Lease, cl *claim) *Lease {
	l.client, l.claim = c, cl
	l.token = newToken(cl.Ticket, !cl.Exclusive(), cl.Turn)
	if cl.owner != nil {
		l.owner = cl.owner.id
	}
	l.parent, l.bound, l.group = r.ctx, r.bound, r.grouped
	if o := c.settings.observer; o != nil {
		l.parent, l.over = o.Holding(r.ctx, r.described(), l.token)
	}
	if !l.bound && l.parent.Done() != nil {
		l.parent = context.WithoutCancel(l.parent)
	}
	cl.lease = l
	return l
}

// Name is what the lease is of.
func (l *Lease) Name() string { return l.claim.Name }

// Token is the fencing token. It stays the same for the whole lease.
func (l *Lease) Token() Token { return l.token }

// Context ends when the lease does: context.Cause then says why, ErrLost or ErrNotHeld. It has the values of
// the context that Lock was given, but neither its cancellation nor its deadline.
func (l *Lease) Context() context.Context {
	if ctx := l.ctx.Load(); ctx != nil {
		return ctx
	}
	// It is made when it is first asked for: a lock that is only taken and given back does without.
	ctx := &leaseContext{lease: l}
	ctx.Context, ctx.cancel = context.WithCancelCause(l.parent)
	if !l.ctx.CompareAndSwap(nil, ctx) {
		ctx.cancel(nil)
		return l.ctx.Load()
	}
	l.Err() //nolint:errcheck // if it ended just now, whoever ended it did not see this context
	return ctx
}

// Until is the instant up to which the lease is known to be held. Renewal moves it on.
func (l *Lease) Until() time.Time { return l.claim.until.from(time.Now()) }

// Err is nil while the lease is held. After that it is why it is over: ErrLost, or ErrNotHeld if it was given
// back, or ErrClosed if its client was closed.
func (l *Lease) Err() error { return l.errAt(time.Now()) }

// errAt is Err at a time that was just read.
func (l *Lease) errAt(now time.Time) error {
	if why := l.ended.Load(); why != nil {
		l.cancel(*why) // whoever ended it may not have come to this yet
		return *why
	}
	if l.claim.isOver(now) {
		l.claim.ended.Store(true) // from now on no renewal revives it
		lost := l.client.failed(opHold, l.claim.Name, l.claim.ranOut())
		l.end(&lost)
		return *l.ended.Load()
	}
	return nil
}

// end makes the lease over, unless it is already, and its context done before it returns. It takes no lock of
// the client's: the truth must not wait for anyone. What is left to do with the claim is the keeper's.
func (l *Lease) end(why *error) bool {
	if !l.ended.CompareAndSwap(nil, why) {
		return false
	}
	l.cancel(*why)
	if l.over != nil {
		l.over(*why)
	}
	return true
}

// cancel ends the context, if there is one.
func (l *Lease) cancel(why error) {
	if ctx := l.ctx.Load(); ctx != nil {
		ctx.cancel(why)
	}
}

// Unlock gives the lease back. It is over from then on, whatever Unlock returns. The release is sent even if
// ctx is done; ctx bounds the waiting for the answer, and if that does not come, the release is repeated in the
// background until the store has it or the ttl has passed. After a loss Unlock returns ErrLost, and when it was
// given back already, ErrNotHeld. With Grace it is worth calling after a loss too: it ends the grace.
func (l *Lease) Unlock(ctx context.Context) error {
	err := ErrNilContext
	if ctx != nil {
		now := time.Now()
		if err = l.errAt(now); err == nil && !l.end(&errUnlocked) {
			err = l.errAt(now)
		} else if err == nil {
			err = l.client.release(ctx, l, now)
		}
		if l.claim.Grace > 0 && errors.Is(err, ErrLost) {
			l.client.givenBack(l)
		}
	}
	return l.client.failed("unlock", l.claim.Name, err)
}

// Downgrade turns an exclusive lease into a shared one, with no moment between in which another writer could
// get in. The old lease is over; the new one is returned, with a token marked as shared, and its context has
// ctx's values. It fails if the lease is not held, and with ErrDowngrade if it is not a writer's, was re-entered, or
// was shown to a guard.
//
// When Downgrade returns, other readers are let in. If the store could not be told before ctx was done, the new
// lease is good all the same, and the store learns of it by the next renewal.
func (l *Lease) Downgrade(ctx context.Context) (*Lease, error) {
	err := ErrNilContext
	if ctx != nil {
		var shared *Lease
		if shared, err = l.downgrade(ctx); err == nil {
			return shared, nil
		}
	}
	return nil, l.client.failed("downgrade", l.claim.Name, err)
}

func (l *Lease) downgrade(ctx context.Context) (*Lease, error) {
	c, cl := l.client, l.claim
	if l.token.Shared() {
		return nil, fmt.Errorf("%w: only a writer's can, and it is a %s", ErrDowngrade, l.claim.sharedBy())
	}
	switch {
	case !c.abilities.Shared:
		return nil, c.lacks("shared locks")
	case c.abilities.ReadersOnly:
		return nil, c.lacks("downgrades")
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	c.begin()
	if len(cl.more) > 0 {
		c.end()
		return nil, fmt.Errorf("%w: it was re-entered, and only the last lease of a lock can be", ErrDowngrade)
	}
	if cl.pinned {
		c.end()
		return nil, errPinned
	}
	// The exclusive lease ends before the store can hear of it, since from then on readers may get in.
	if cl.phase != held || !l.end(&errDowngraded) {
		c.end()
		if err := l.Err(); err != nil {
			return nil, err
		}
		return nil, errWithdrawn
	}
	cl.Units = 1
	again := &request{lock: &lock{client: c, name: cl.Name}, ctx: ctx, op: "downgrade", demand: cl.Demand}
	shared := c.lease(again, new(Lease), cl)
	cl.due = monoNow() // the keeper tells the store, should this call fail
	c.end()
	c.keeper.keep(ctx, []*claim{cl}, nil)
	return shared, nil
}

// Pin gives the store and the claim behind the lease to a guard that the store itself keeps, such as etcdstore.Held. Such
// a guard goes by the claim, and could not tell one holder from the next. So from now on the claim is this lease's alone: it
// is not handed over inside the process when it is given back, and it cannot be downgraded. Pin fails if the lease is over.
func (l *Lease) Pin() (Store, Claim, error) {
	s, claim, err := l.pin()
	if err != nil {
		return nil, Claim{}, l.client.failed("pin", l.claim.Name, err)
	}
	return s, claim, nil
}

func (l *Lease) pin() (Store, Claim, error) {
	c := l.client
	c.begin()
	defer c.end()
	// Asked with mu held: whoever hands the claim over has ended the lease before, and takes mu for it.
	if err := l.Err(); err != nil {
		return nil, Claim{}, err
	}
	l.claim.pinned = true
	return c.store, l.claim.Claim, nil
}

// leaseContext is the context of a lease. Beneath it is an ordinary cancellable context, so that contexts
// derived from it cost no goroutine and context.Cause works.
type leaseContext struct {
	context.Context
	cancel context.CancelCauseFunc
	lease  *Lease
}

// leaseKey finds the innermost lease among a context's values.
type leaseKey struct{}

func (c *leaseContext) Err() error {
	c.ask()
	return c.Context.Err()
}

func (c *leaseContext) Done() <-chan struct{} {
	c.ask()
	return c.Context.Done()
}

// ask ends the context if the lease is over, or one around it whose context bounds this one.
func (c *leaseContext) ask() {
	c.lease.Err() //nolint:errcheck // asked for what it does
	if c.lease.bound {
		c.lease.parent.Err() //nolint:errcheck // as above
	}
}

func (c *leaseContext) Value(key any) any {
	if key == (leaseKey{}) {
		return c.lease
	}
	return c.Context.Value(key)
}

func (c *leaseContext) String() string { return "holdfast lease of " + c.lease.claim.Name }

package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// A Lease is a lock that is held. It can be used and unlocked by any goroutine.
//
// Err of the lease, and Err and Done of its context, compare the clocks with Until on every call. If the lease is over,
// they end the context before they return. So a process that was paused sees the loss at its first call, before any
// goroutine of this package has run again.
type Lease struct {
	client *Client
	claim  *claim
	token  Token
	owner  string                       // the owner of locks under its context; empty: the claim's ID
	parent context.Context              // its context is derived from it
	bound  bool                         // its context ends with parent
	group  bool                         // one of several leases of a MultiLease
	over   func(error)                  // the observer's
	ctx    atomic.Pointer[leaseContext] // nil until the first call of Context
	ended  atomic.Pointer[error]        // why it is over; nil while it is held
}

// The reasons for the end of a lease. The error of a loss also names the lease and its store: see endLeases.
var (
	errUnlocked   = fmt.Errorf("%w: it was unlocked", ErrNotHeld)
	errDowngraded = fmt.Errorf("%w: it was downgraded", ErrNotHeld)
	errClosed     = ErrClosed
	errExpired    = fmt.Errorf("%w: it expired", ErrLost)
	errNotRenewed = fmt.Errorf("%w: it could not be renewed", ErrLost)
	errWithdrawn  = fmt.Errorf("%w: the store no longer has it", ErrLost)
)

var errPinned = fmt.Errorf("%w: it was pinned for a guard of the store, which has no downgrades", ErrDowngrade)

// opHold is the operation that fails when a lease is lost.
const opHold = "hold"

// lease makes l the lease of cl for r. Its context has the values of r's context, and ends with it only if r is bound.
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

// Name returns the name of the lock.
func (l *Lease) Name() string { return l.claim.Name }

// Token returns the fencing token. It does not change.
func (l *Lease) Token() Token { return l.token }

// Context returns a context that ends when the lease does. context.Cause then returns the error of Err. It has the
// values of the context that was passed to Lock, but neither its cancellation nor its deadline.
func (l *Lease) Context() context.Context {
	if ctx := l.ctx.Load(); ctx != nil {
		return ctx
	}
	// It is made by the first call, so that a lock that is only acquired and released does not allocate it.
	ctx := &leaseContext{lease: l}
	ctx.Context, ctx.cancel = context.WithCancelCause(l.parent)
	if !l.ctx.CompareAndSwap(nil, ctx) {
		ctx.cancel(nil)
		return l.ctx.Load()
	}
	l.Err() //nolint:errcheck // if the lease ended just now, its end did not see this context
	return ctx
}

// Until returns the instant up to which the lease is known to be held. Each renewal moves it.
func (l *Lease) Until() time.Time { return l.claim.until.from(time.Now()) }

// Err returns nil while the lease is held. After that the error wraps ErrLost if the lease was lost, ErrNotHeld if it
// was unlocked or downgraded, or ErrClosed if its client was closed.
func (l *Lease) Err() error { return l.errAt(time.Now()) }

// errAt returns Err at the current time, which the caller has just read.
func (l *Lease) errAt(now time.Time) error {
	if why := l.ended.Load(); why != nil {
		l.cancel(*why) // the goroutine that ended it may not have done this yet
		return *why
	}
	if l.claim.isOver(now) {
		l.claim.ended.Store(true) // from now on no renewal revives it
		lost := l.client.failed(opHold, l.claim.Name, l.claim.expired())
		l.end(&lost)
		return *l.ended.Load()
	}
	return nil
}

// end ends the lease, and its context before it returns. It reports false if the lease has ended before. It does not
// lock the client's mu: reporting a loss must not wait for other goroutines. The keeper handles the claim later.
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

// Unlock releases the lease. The lease is over from then on, whatever Unlock returns. The release is sent even if ctx
// has ended; ctx bounds the wait for the store's confirmation. Without one, the release is repeated in the background
// until the store confirms it or the ttl has passed.
//
// The error is an *Error. It wraps ErrLost if the lease was lost, ErrNotHeld if it was unlocked or downgraded before,
// ErrClosed if its client was closed, and a *Fault or the error of ctx if the store did not confirm the release. With
// WithGrace, call Unlock after a loss too: it ends the grace.
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
			l.client.unlockedAfterLoss(l)
		}
	}
	return l.client.failed("unlock", l.claim.Name, err)
}

// Downgrade turns an exclusive lease into a shared one, without a moment in between in which another writer could
// acquire the lock. The old lease is over. The new one has a token marked as shared, and its context has the values of
// ctx.
//
// When Downgrade returns, other readers are admitted. If the store could not be reached before ctx ended, the new lease
// is valid nevertheless, and the next renewal reports it to the store.
//
// The error is an *Error. It wraps the error of Err if the lease is not held, ErrDowngrade if it is not a writer's, was
// re-entered or was pinned, ErrUnsupported if the store lacks shared locks or downgrades, or ErrNilContext.
func (l *Lease) Downgrade(ctx context.Context) (*Lease, error) {
	shared, err := l.downgrade(ctx)
	if err != nil {
		return nil, l.client.failed("downgrade", l.claim.Name, err)
	}
	l.client.keeper.keep(ctx, []*claim{l.claim}, nil)
	return shared, nil
}

// downgrade ends the lease and returns the shared one, which the next Keep reports to the store. Its errors are not
// wrapped in an *Error yet.
func (l *Lease) downgrade(ctx context.Context) (*Lease, error) {
	c, cl := l.client, l.claim
	switch {
	case ctx == nil:
		return nil, ErrNilContext
	case l.token.Shared():
		return nil, fmt.Errorf("%w: it is not a writer's but a %s", ErrDowngrade, l.claim.sharedBy())
	case !c.abilities.Shared:
		return nil, c.lacks("shared locks")
	case c.abilities.ReadersOnly:
		return nil, c.lacks("downgrades")
	}
	c.begin()
	defer c.end()
	switch err := l.Err(); {
	case err != nil:
		return nil, err
	case len(cl.more) > 0:
		return nil, fmt.Errorf("%w: it was re-entered, and other leases of it are still held", ErrDowngrade)
	case cl.pinned:
		return nil, errPinned
	// The exclusive lease ends before the store learns of it, since readers may be admitted from then on.
	case cl.phase != held || !l.end(&errDowngraded):
		return nil, cmp.Or(l.Err(), errWithdrawn)
	}
	cl.Units = 1
	again := &request{lock: &lock{client: c, name: cl.Name}, ctx: ctx, op: "downgrade", demand: cl.Demand}
	cl.due = monoNow() // if the Keep that follows fails, the keeper repeats it
	return c.lease(again, new(Lease), cl), nil
}

// Pin returns the store and the claim behind the lease, for a guard that the store itself evaluates, such as
// etcdstore.Held. Such a guard compares claims, and could not tell two holders of one claim apart. So from now on the
// claim belongs to this lease alone: it is not handed over inside the process when it is unlocked, and it cannot be
// downgraded. If the lease is over, the error is an *Error that wraps the error of Err.
func (l *Lease) Pin() (Store, Claim, error) {
	c := l.client
	c.begin()
	defer c.end()
	// mu is held: the hand-over of a claim ends the lease first, and then locks mu.
	if err := l.Err(); err != nil {
		return nil, Claim{}, c.failed("pin", l.claim.Name, err)
	}
	l.claim.pinned = true
	return c.store, l.claim.Claim, nil
}

// A leaseContext is the context of a lease. It embeds an ordinary cancellable context, so that contexts derived from it
// cost no goroutine and context.Cause works.
type leaseContext struct {
	context.Context
	cancel context.CancelCauseFunc
	lease  *Lease
}

// leaseKey is the key of the innermost lease among a context's values.
type leaseKey struct{}

func (c *leaseContext) Err() error {
	c.refresh()
	return c.Context.Err()
}

func (c *leaseContext) Done() <-chan struct{} {
	c.refresh()
	return c.Context.Done()
}

// refresh ends the context if the lease is over, or if a lease around it is over whose context bounds this one.
func (c *leaseContext) refresh() {
	c.lease.Err() //nolint:errcheck // called for its effect
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

package holdfast

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/store"
)

// The demands of a writer and of a reader.
var (
	wholeLock = store.Demand{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders}
	readLock  = store.Demand{Kind: store.Lock, Units: 1, Limit: store.MaxReaders}
)

// A Mutex is a lock with one holder at a time, first come, first served. It is the write side of the RWMutex of the
// same name. It has no state of its own: two of the same name are the same lock.
type Mutex struct{ lock lock }

// Mutex returns the mutex of this name. A wrong name or option is an error of its methods.
func (c *Client) Mutex(name string, options ...Option) *Mutex { return &Mutex{c.lock(name, options)} }

// Lock waits for the lock and acquires it. ctx bounds the wait only; the lease is held until it is unlocked or lost. If
// ctx ends first, nothing is held, and no claim stays in the queue.
//
// The error is an *Error. It wraps
//   - the error of ctx, if ctx ended the wait; at a deadline also a *LockedError that names the holder,
//   - a *DeadlockError, if the wait could not end,
//   - ErrReentered or ErrUpgrade, if ctx is from a lease of this lock,
//   - ErrMismatch, if the name is in use as a semaphore,
//   - ErrBadName, ErrBadTTL, ErrBadOption, ErrUnsupported, ErrNilContext or ErrClosed, if the call is not possible,
//   - a *Fault, ErrFloor or ErrFormat, if the store fails.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) {
	return m.lock.acquire(ctx, &request{op: "lock", demand: wholeLock})
}

// TryLock acquires the lock if it is free, and does not wait. If it is not free, the error wraps a *LockedError. The
// other errors are those of [Mutex.Lock].
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {
	return m.lock.acquire(ctx, &request{op: "trylock", demand: wholeLock, try: true})
}

// Do acquires the lock, calls fn, and releases the lock. ctx bounds the wait and fn. The context that fn receives ends
// the moment the lease is lost; [TokenFrom] finds the fencing token in it.
//
// Do returns the errors of [Mutex.Lock], or else fn's error. If the lease was lost in the meantime, the error wraps
// ErrLost too: another holder may have worked at the same time as fn. A release that the store did not confirm is not
// an error: it is repeated in the background.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	return m.lock.do(ctx, &request{op: "lock", demand: wholeLock}, fn)
}

// Inspect returns the holder and the waiters of the lock. See [Client.Inspect].
func (m *Mutex) Inspect(ctx context.Context) (Queue, error) { return m.lock.inspect(ctx) }

// do acquires the lock, calls fn and releases the lock.
func (k *lock) do(ctx context.Context, r *request, fn func(context.Context) error) error {
	if fn == nil {
		return k.client.failed(r.op, k.name, errNoFunction)
	}
	r.bound = true
	l, err := k.acquire(ctx, r)
	if err != nil {
		return err
	}
	return withLoss(callUnder(ctx, l, fn))
}

// A heldLease is a *Lease or a *MultiLease.
type heldLease interface {
	Context() context.Context
	Unlock(ctx context.Context) error
}

// callUnder calls fn under a lease and releases it, also if fn panics. It returns fn's error, and ErrLost or ErrClosed
// if the lease ended before it was released. A release that the store did not confirm is not an error: it is repeated
// in the background, and does not concern what fn did.
func callUnder(ctx context.Context, l heldLease, fn func(context.Context) error) (err, lost error) {
	defer func() {
		unlocked := l.Unlock(ctx)
		if errors.Is(unlocked, ErrLost) || errors.Is(unlocked, ErrClosed) {
			lost = unlocked
		}
	}()
	return fn(l.Context()), nil
}

// withLoss joins the error of a function and that of the lease that it ran under. Either may be nil. If the function
// returned the cause of its context, it has reported the loss already.
func withLoss(err, lost error) error {
	if err == nil || lost == nil {
		return cmp.Or(err, lost)
	}
	losses := []error{lost}
	if many, ok := lost.(*several); ok { //nolint:errorlint // MultiLease.Unlock returns it as it is
		losses = many.errs
	}
	if slices.ContainsFunc(losses, func(l error) bool { return errors.Is(err, errors.Unwrap(l)) }) {
		return err
	}
	return &several{[]error{lost, err}}
}

var errNoFunction = errors.New("the function is nil")

package holdfast

import (
	"cmp"
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/store"
)

// What the primitives ask for.
var (
	wholeLock = store.Demand{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders}
	readLock  = store.Demand{Kind: store.Lock, Units: 1, Limit: store.MaxReaders}
)

// A Mutex is a lock that one holds at a time, first come, first served. It is the write side of the RWMutex of
// the same name. It has no state of its own: two with the same name are the same lock.
type Mutex struct{ lock lock }

// Mutex is the mutex of this name. A wrong name or option is an error when it is used.
func (c *Client) Mutex(name string, options ...Option) *Mutex { return &Mutex{c.lock(name, options)} }

// Lock waits for the lock and takes it. ctx bounds the wait only; what is then held is the lease, until it is
// unlocked or lost. If ctx ends first, nothing is held and no place in the line is left behind. If it was its
// deadline, the error is also a *LockedError that says who is in the way.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) {
	return m.lock.acquire(ctx, &request{op: "lock", ask: wholeLock})
}

// TryLock takes the lock if it is free, and is otherwise a *LockedError at once.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {
	return m.lock.acquire(ctx, &request{op: "trylock", ask: wholeLock, try: true})
}

// Do takes the lock, calls fn, and gives the lock back. ctx bounds both the wait and fn. The context that fn is
// given ends the moment the lease is lost; TokenFrom finds the fencing token in it.
//
// Do returns fn's error. If the lease was lost meanwhile, the error is ErrLost too: what fn did may have been
// done beside somebody else's.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	return m.lock.do(ctx, &request{op: "lock", ask: wholeLock}, fn)
}

// Inspect says who holds the lock and who waits for it.
func (m *Mutex) Inspect(ctx context.Context) (Queue, error) { return m.lock.inspect(ctx) }

// do takes the lock, runs fn and gives the lock back.
func (k *lock) do(ctx context.Context, r *request, fn func(context.Context) error) error {
	if fn == nil {
		return k.client.failed(r.op, k.name, errNoFunction)
	}
	r.bound = true
	l, err := k.acquire(ctx, r)
	if err != nil {
		return err
	}
	err, lost := under(ctx, l, fn)
	return withLoss(err, lost)
}

// under runs fn under a lease and gives it back, also when fn panics. It returns fn's error, and whether the lease
// ended before its time. A release that the store did not confirm is no error: it is repeated in the background, and
// says nothing of what fn did.
func under(ctx context.Context, l *Lease, fn func(context.Context) error) (err, lost error) {
	defer func() {
		unlocked := l.Unlock(ctx)
		if errors.Is(unlocked, ErrLost) || errors.Is(unlocked, ErrClosed) {
			lost = unlocked
		}
	}()
	return fn(l.Context()), nil
}

// withLoss returns the error of a function and that of the lease that it ran under. Either may be nil. A function that
// returns the cause of its context has told of the loss already.
func withLoss(err, lost error) error {
	if err == nil || lost == nil {
		return cmp.Or(err, lost)
	}
	if errors.Is(err, errors.Unwrap(lost)) {
		return err
	}
	return &several{[]error{lost, err}}
}

var errNoFunction = errors.New("it was given no function")

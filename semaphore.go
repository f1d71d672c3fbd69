package holdfast

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// A Semaphore has a limited number of units, which holders share, first come, first served: a waiter for many units is
// not overtaken by waiters for few. All clients that use a name must agree that it is a semaphore, and on the number of
// its units; otherwise they get ErrMismatch. It has no state of its own: two of the same name are the same semaphore.
type Semaphore struct {
	lock  lock
	limit int
}

// Semaphore returns the semaphore of this name, with this number of units. A wrong name, number or option is an error
// of its methods.
func (c *Client) Semaphore(name string, units int, options ...Option) *Semaphore {
	s := &Semaphore{c.lock(name, options), units}
	if s.lock.err == nil && (units < 1 || units > store.MaxReaders) {
		s.lock.err = fmt.Errorf("%w: a semaphore has 1 to %d units, not %d", ErrBadUnits, store.MaxReaders, units)
	}
	return s
}

// Acquire waits for n units and acquires them. The lease's token is marked as shared. If n is not possible, the error
// wraps ErrBadUnits. See [Mutex.Lock] about ctx and the other errors.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*Lease, error) {
	return s.acquire(ctx, n, &request{op: "acquire"})
}

// TryAcquire acquires n units if they are free, and does not wait. If n is not possible, the error wraps ErrBadUnits.
// See [Mutex.TryLock] about the other errors.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*Lease, error) {
	return s.acquire(ctx, n, &request{op: "tryacquire", try: true})
}

// Do acquires n units, calls fn, and releases the units. See [Mutex.Do] about ctx, fn and the error.
func (s *Semaphore) Do(ctx context.Context, n int, fn func(ctx context.Context) error) error {
	const op = "acquire"
	demand, err := s.demand(n)
	if err != nil {
		return s.lock.client.failed(op, s.lock.name, err)
	}
	return s.lock.do(ctx, &request{op: op, demand: demand}, fn)
}

// Inspect returns the holders and the waiters of the semaphore. See [Client.Inspect].
func (s *Semaphore) Inspect(ctx context.Context) (Queue, error) { return s.lock.inspect(ctx) }

// acquire acquires n units as r describes it. If n is not possible, the error wraps ErrBadUnits.
func (s *Semaphore) acquire(ctx context.Context, n int, r *request) (*Lease, error) {
	var err error
	if r.demand, err = s.demand(n); err != nil {
		return nil, s.lock.client.failed(r.op, s.lock.name, err)
	}
	return s.lock.acquire(ctx, r)
}

// demand returns the demand for n units. The error is ErrBadUnits.
func (s *Semaphore) demand(n int) (store.Demand, error) {
	if s.lock.err == nil && (n < 1 || n > s.limit) {
		return store.Demand{}, fmt.Errorf("%w: %d of %d", ErrBadUnits, n, s.limit)
	}
	return store.Demand{Kind: store.Semaphore, Units: int32(n), Limit: int32(s.limit)}, nil
}

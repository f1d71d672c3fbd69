package holdfast

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// A Semaphore lets holders have up to a number of units at a time, first come, first served: one who waits for
// many units is not overtaken by those who want few. All who use a name must agree on the number, and on its
// being a semaphore; who does not gets ErrMismatch. It has no state of its own.
type Semaphore struct {
	lock  lock
	limit int
}

// Semaphore is the semaphore of this name, with that many units. A wrong name, number or option is an error
// when it is used.
func (c *Client) Semaphore(name string, units int, options ...Option) *Semaphore {
	s := &Semaphore{c.lock(name, options), units}
	if s.lock.err == nil && (units < 1 || units > store.MaxReaders) {
		s.lock.err = fmt.Errorf("%w: a semaphore has 1 to %d, not %d", ErrBadUnits, store.MaxReaders, units)
	}
	return s
}

// Acquire waits for n units and takes them. See Mutex.Lock about ctx. The lease's token is marked as shared.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*Lease, error) {
	return s.acquire(ctx, n, &request{op: "acquire"})
}

// TryAcquire takes n units if they can be had at once, and is otherwise a *LockedError.
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

// Inspect says who holds units and who waits for some.
func (s *Semaphore) Inspect(ctx context.Context) (Queue, error) { return s.lock.inspect(ctx) }

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

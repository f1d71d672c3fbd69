package main

import (
	"context"
	"time"
)

// An opener opens a contestant's client in one process. where is the site's address.
type opener = func(ctx context.Context, where string, ttl time.Duration) (locker, error)

// opening returns the opener of a contestant that wrap makes of what open opens, such as a session.
func opening[S any](
	open func(ctx context.Context, where string, ttl time.Duration) (S, error), wrap func(S) locker,
) opener {
	return func(ctx context.Context, where string, ttl time.Duration) (locker, error) {
		s, err := open(ctx, where, ttl)
		if err != nil {
			return nil, err
		}
		return wrap(s), nil
	}
}

// A locker is a contestant's client in one process. It may be used by many goroutines at once.
type locker interface {
	// Acquire waits for the lock of this name until ctx is done. The context has no deadline: some contestants take
	// one for the end of what they hold.
	Acquire(ctx context.Context, name string) (lease, error)
	Close() error
}

// A lease is a lock that is held.
type lease interface {
	Release() error
}

// A fencedLease has a fencing token, which rises with every holder.
type fencedLease interface {
	lease
	Fence() uint64
}

// A keptLease is renewed by its contestant until it is released. Err is nil while it is held.
type keptLease interface {
	lease
	Err() error
}

// A leaseFunc is a lease that is given back with this function.
type leaseFunc func() error

func (f leaseFunc) Release() error { return f() }

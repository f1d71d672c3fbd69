package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
)

// A lock is what a worker acquires before it sells.
type lock struct {
	acquire func(context.Context) (hold, error)
	close   func() error
}

// A hold is a lock that its holder believes to hold.
type hold struct {
	token   holdfast.Token // 0 if it has none
	until   func() moment  // when its holder knows that it is over
	release func(context.Context) error
}

func never() moment { return forever }

// openLock returns the lock of an order. db is the stock's.
func openLock(ctx context.Context, o *order, db *sql.DB) (lock, error) {
	nothing := func() error { return nil }
	switch o.Lock {
	case noLock:
		alone := hold{until: never, release: func(context.Context) error { return nil }}
		return lock{func(context.Context) (hold, error) { return alone, nil }, nothing}, nil
	case naiveLock:
		return lock{newNaive(db, o.Name, o.TTL).acquire, nothing}, nil
	case holdfastLock:
		label := fmt.Sprintf("demo worker %d", o.Worker)
		locks, err := holdfast.Open(ctx, o.Store, holdfast.WithTTL(o.TTL), holdfast.WithLabel(label))
		if err != nil {
			return lock{}, err
		}
		mutex := locks.Mutex(o.Name)
		return lock{func(ctx context.Context) (hold, error) { return lockMutex(ctx, mutex) }, locks.Close}, nil
	}
	return lock{}, fmt.Errorf("holdfast: the order has an unknown kind of lock %q", o.Lock)
}

// lockMutex acquires Holdfast's lock. The release of a lost lease is not an error here, since the fence checks writes.
func lockMutex(ctx context.Context, mutex *holdfast.Mutex) (hold, error) {
	lease, err := mutex.Lock(ctx)
	if err != nil {
		return hold{}, err
	}
	return hold{lease.Token(), func() moment { return at(lease.Until()) }, func(ctx context.Context) error {
		if err := lease.Unlock(ctx); err != nil && !errors.Is(err, holdfast.ErrLost) {
			return err
		}
		return nil
	}}, nil
}

package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
)

// A lock is what a worker takes before it sells.
type lock struct {
	acquire func(context.Context) (hold, error)
	close   func() error
}

// A hold is a lock that its holder believes to have.
type hold struct {
	token   holdfast.Token // 0: it has none
	until   func() moment  // when its holder stops believing by itself
	release func(context.Context) error
}

func never() moment { return forever }

// openLock makes what the order asks for. db is the stock's.
func openLock(ctx context.Context, o *order, db *sql.DB) (lock, error) {
	nothing := func() error { return nil }
	switch o.Lock {
	case noLock:
		alone := hold{until: never, release: func(context.Context) error { return nil }}
		return lock{func(context.Context) (hold, error) { return alone, nil }, nothing}, nil
	case naiveLock:
		return lock{newNaive(db, o.Name, o.TTL).acquire, nothing}, nil
	case holdfastLock:
		locks, err := holdfast.Open(ctx, o.Store, holdfast.WithTTL(o.TTL), holdfast.WithLabel(fmt.Sprintf("demo worker %d", o.Worker)))
		if err != nil {
			return lock{}, err
		}
		mutex := locks.Mutex(o.Name)
		return lock{func(ctx context.Context) (hold, error) { return lockMutex(ctx, mutex) }, locks.Close}, nil
	}
	return lock{}, fmt.Errorf("holdfast: the order asks for a lock of kind %q, which there is not", o.Lock)
}

// lockMutex takes Holdfast's lock. To release a lease that was lost is no error here: the fence has the last word.
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

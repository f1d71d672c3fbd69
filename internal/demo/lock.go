package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
)

// A lock is what a worker takes before it sells.
type lock interface {
	acquire(ctx context.Context) (hold, error)
	close() error
}

// A hold is a lock that its holder believes to have.
type hold interface {
	token() holdfast.Token // 0: it has none
	until() moment         // when its holder stops believing by itself
	release(ctx context.Context) error
}

// openLock makes what the order asks for. db is the stock's.
func openLock(ctx context.Context, o *order, db *sql.DB) (lock, error) {
	switch o.Lock {
	case noLock:
		return nothing{}, nil
	case naiveLock:
		return newNaive(db, o.Name, o.TTL), nil
	case holdfastLock:
		locks, err := holdfast.Open(ctx, o.Store, holdfast.TTL(o.TTL), holdfast.Label(fmt.Sprintf("demo worker %d", o.Worker)))
		if err != nil {
			return nil, err
		}
		return &leases{locks, locks.Mutex(o.Name)}, nil
	}
	return nil, fmt.Errorf("holdfast: the order asks for a lock of kind %q, which there is not", o.Lock)
}

// nothing is what a worker takes that believes to be alone anyway.
type nothing struct{}

func (nothing) acquire(context.Context) (hold, error) { return nothing{}, nil }
func (nothing) close() error                          { return nil }
func (nothing) token() holdfast.Token                 { return 0 }
func (nothing) until() moment                         { return forever }
func (nothing) release(context.Context) error         { return nil }

// leases is Holdfast.
type leases struct {
	locks *holdfast.Client
	mutex *holdfast.Mutex
}

func (l *leases) acquire(ctx context.Context) (hold, error) {
	held, err := l.mutex.Lock(ctx)
	if err != nil {
		return nil, err
	}
	return lease{held}, nil
}

func (l *leases) close() error { return l.locks.Close() }

type lease struct{ held *holdfast.Lease }

func (l lease) token() holdfast.Token { return l.held.Token() }

func (l lease) until() moment { return at(l.held.Until()) }

// release gives the lease back. That it was lost meanwhile is no error here: the fence has the last word.
func (l lease) release(ctx context.Context) error {
	if err := l.held.Unlock(ctx); err != nil && !errors.Is(err, holdfast.ErrLost) {
		return err
	}
	return nil
}

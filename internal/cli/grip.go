package cli

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
)

// A grip is what a command runs under: one lock or several that are acquired together and lost together.
// *holdfast.MultiLease is one.
type grip interface {
	Tokens() []holdfast.Token // in the order in which the locks were named
	Context() context.Context // ends with the first of them
	Err() error
	Until() time.Time
	Unlock(ctx context.Context) error
}

// want returns the lock of this name, of the kind that the flags select.
func (f *runFlags) want(c *holdfast.Client, name string, options []holdfast.Option) holdfast.Part {
	switch {
	case f.slots > 0:
		return c.Semaphore(name, f.slots, options...).Units(f.units)
	case f.shared:
		return c.RWMutex(name, options...).Reader()
	default:
		return c.Mutex(name, options...)
	}
}

// lockAll waits until all locks are acquired.
func lockAll(ctx context.Context, parts []holdfast.Part) (grip, error) {
	return gripOf(holdfast.LockAll(ctx, parts...))
}

// tryLockAll acquires all locks if all are free, without waiting.
func tryLockAll(ctx context.Context, parts []holdfast.Part) (grip, error) {
	return gripOf(holdfast.TryLockAll(ctx, parts...))
}

// gripOf returns a nil grip for a nil lease, which as a pointer in an interface would not be nil.
func gripOf(m *holdfast.MultiLease, err error) (grip, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

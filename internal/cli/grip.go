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

// lease acquires the one lock that want returns, as a single lease.
func (r *run) lease(ctx context.Context) (*holdfast.Lease, error) {
	name, options := r.names[0], r.options()
	switch s := r.session.Semaphore(name, max(r.slots, 1), options...); {
	case r.slots > 0 && r.noWait:
		return s.TryAcquire(ctx, r.units)
	case r.slots > 0:
		return s.Acquire(ctx, r.units)
	}
	switch l := r.session.RWMutex(name, options...); {
	case r.shared && r.noWait:
		return l.TryRLock(ctx)
	case r.shared:
		return l.RLock(ctx)
	case r.noWait:
		return l.TryLock(ctx)
	default:
		return l.Lock(ctx)
	}
}

// gripOf returns a nil grip for a nil lease, which as a pointer in an interface would not be nil.
func gripOf(m *holdfast.MultiLease, err error) (grip, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

// A leased is one lease as a grip.
type leased struct{ *holdfast.Lease }

// Tokens implements grip.
func (l leased) Tokens() []holdfast.Token { return []holdfast.Token{l.Token()} }

// gripOfOne likewise returns a nil grip for a nil lease.
func gripOfOne(l *holdfast.Lease, err error) (grip, error) {
	if err != nil {
		return nil, err
	}
	return leased{l}, nil
}

package cli

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
)

// A grip is what a command runs under: one lock or several, that are had together and lost together.
// *holdfast.MultiLease is one.
type grip interface {
	Tokens() []holdfast.Token // in the order in which the locks were named
	Context() context.Context // ends with the first of them
	Err() error
	Until() time.Time
	Unlock(ctx context.Context) error
}

// A wanted is a lock that is to be taken, and how.
type wanted struct {
	part holdfast.Part
	try  func(context.Context) (*holdfast.Lease, error)
}

// want says how the lock of this name is taken.
func (f *runFlags) want(c *holdfast.Client, name string, options []holdfast.Option) wanted {
	switch {
	case f.slots > 0:
		s := c.Semaphore(name, f.slots, options...)
		return wanted{s.Units(f.units), func(ctx context.Context) (*holdfast.Lease, error) { return s.TryAcquire(ctx, f.units) }}
	case f.shared:
		m := c.RWMutex(name, options...)
		return wanted{m.Reader(), m.TryRLock}
	default:
		m := c.Mutex(name, options...)
		return wanted{m, m.TryLock}
	}
}

// takeAll waits for all of them.
func takeAll(ctx context.Context, all []wanted) (grip, error) {
	parts := make([]holdfast.Part, len(all))
	for i, w := range all {
		parts[i] = w.part
	}
	g, err := holdfast.LockAll(ctx, parts...)
	if err != nil {
		return nil, err // and no nil pointer that looks like a grip
	}
	return g, nil
}

// tryAll takes all of them if none is taken, and waits for nothing.
func tryAll(ctx context.Context, all []wanted) (grip, error) {
	g := &tried{}
	g.ctx, g.end = context.WithCancelCause(context.WithoutCancel(ctx))
	for _, w := range all {
		l, err := w.try(ctx)
		if err != nil {
			g.Unlock(ctx) //nolint:errcheck // what is not confirmed is repeated; err is what the caller must know
			return nil, err
		}
		g.leases = append(g.leases, l)
		context.AfterFunc(l.Context(), func() { g.end(context.Cause(l.Context())) })
	}
	return g, nil
}

// A tried is the grip of tryAll.
type tried struct {
	leases []*holdfast.Lease
	ctx    context.Context
	end    context.CancelCauseFunc
}

func (g *tried) Tokens() []holdfast.Token {
	tokens := make([]holdfast.Token, len(g.leases))
	for i, l := range g.leases {
		tokens[i] = l.Token()
	}
	return tokens
}

func (g *tried) Context() context.Context { return g.ctx }

func (g *tried) Err() error {
	for _, l := range g.leases {
		if err := l.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (g *tried) Until() time.Time {
	first := g.leases[0].Until()
	for _, l := range g.leases[1:] {
		if u := l.Until(); u.Before(first) {
			first = u
		}
	}
	return first
}

func (g *tried) Unlock(ctx context.Context) error {
	var all []error
	for _, l := range g.leases {
		all = append(all, l.Unlock(ctx))
	}
	g.end(holdfast.ErrNotHeld)
	return errors.Join(all...)
}

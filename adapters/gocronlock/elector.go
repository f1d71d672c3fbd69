package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast"
)

// ErrNotLeader is the error of IsLeader if another machine leads, or none does.
var ErrNotLeader = errors.New("gocronlock: not the leader")

// An Elector is a [gocron.Elector]: of all machines that campaign in an election, one leads, and only its scheduler
// runs jobs.
//
// It campaigns in the background, from NewElector until Close, and again after each loss of the leadership. IsLeader
// costs no call of the store. It compares the clocks, so that it reports the end of the leadership before another
// machine can lead.
//
// gocron asks IsLeader once, before a job. A job that takes long watches [Elector.Context]. When the leadership passes
// from a machine whose clock is ahead to one whose clock is behind, the second can run a job whose time has come for
// the first already. If a job must not run twice then, let it call holdfast.Client.Once with its scheduled time.
type Elector struct {
	cancel context.CancelFunc
	term   atomic.Pointer[term] // nil before the first one
	ended  chan struct{}        // closed when the campaign has ended
	err    error                // why the campaign has ended by itself; set before ended is closed
}

var _ gocron.Elector = (*Elector)(nil)

// A term is the time for which an Elector leads.
type term struct{ ctx context.Context }

// NewElector starts to campaign in the election of this name, and returns at once, for [gocron.WithDistributedElector].
// The campaign ends with ctx, with Close, and at an error that does not go away by waiting, such as a wrong option, a
// client that was closed, or a wrong password.
func NewElector(ctx context.Context, locks *holdfast.Client, name string, options ...holdfast.Option) *Elector {
	ctx, cancel := context.WithCancel(ctx)
	e := &Elector{cancel: cancel, ended: make(chan struct{})}
	go e.campaign(ctx, locks.Election(name, options...))
	return e
}

// campaign leads whenever it can, until ctx ends.
func (e *Elector) campaign(ctx context.Context, election *holdfast.Election) {
	defer close(e.ended)
	err := election.Run(ctx, func(ctx context.Context) error {
		e.term.Store(&term{ctx})
		<-ctx.Done()
		return ctx.Err()
	})
	if ctx.Err() == nil {
		e.err = err
	}
}

// IsLeader returns nil while this machine leads, and otherwise an error that is an ErrNotLeader. If the campaign has
// ended by itself, the error wraps the reason too. The context is not used.
func (e *Elector) IsLeader(context.Context) error {
	if _, leads := e.Context(); leads {
		return nil
	}
	select {
	case <-e.ended:
		if e.err != nil {
			return fmt.Errorf("%w: the campaign has ended: %w", ErrNotLeader, e.err)
		}
		return fmt.Errorf("%w: the campaign has ended", ErrNotLeader)
	default:
		return ErrNotLeader
	}
}

// Context returns the context of the leadership, and reports whether this machine leads. The context ends when the
// leadership does; if it was lost, its cause is a holdfast.ErrLost. holdfast.TokenFrom finds the fencing token in it.
// If this machine does not lead, the context has ended already.
func (e *Elector) Context() (ctx context.Context, leads bool) {
	if t := e.term.Load(); t != nil {
		return t.ctx, t.ctx.Err() == nil
	}
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(ErrNotLeader)
	return ended, false
}

// Close ends the campaign, steps down, and returns when that is done. Shut the scheduler down before: jobs that still
// run are not stopped. The error is the reason if the campaign has ended by itself before.
func (e *Elector) Close() error {
	e.cancel()
	<-e.ended
	return e.err
}

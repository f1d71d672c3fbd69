package otelholdfast

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// An outcome is how a wait, a lease or a renewal ended. There are few, since each is a time series of its own.
type outcome uint8

const (
	granted outcome = iota
	locked
	timeout
	canceled
	deadlock
	closed
	failed
	released
	lost
	renewed
	outcomes // the number of outcomes
)

var outcomeNames = [outcomes]string{
	granted:  "granted",
	locked:   "locked",
	timeout:  "timeout",
	canceled: "canceled",
	deadlock: "deadlock",
	closed:   "closed",
	failed:   "error",
	released: "released",
	lost:     "lost",
	renewed:  "ok",
}

func (o outcome) String() string { return outcomeNames[o] }

// waitOutcome returns how a wait ended.
func waitOutcome(err error) outcome {
	switch {
	case err == nil:
		return granted
	case errors.Is(err, holdfast.ErrDeadlock):
		return deadlock
	case errors.Is(err, context.Canceled): // by the caller, whatever else failed in the meantime
		return canceled
	case errors.Is(err, holdfast.ErrClosed):
		return closed
	case isFault(err): // before the deadline: a failing store is not contention
		return failed
	case errors.Is(err, context.DeadlineExceeded): // before ErrLocked, which such an error wraps too
		return timeout
	case errors.Is(err, holdfast.ErrLocked):
		return locked
	}
	return failed
}

// isFault reports whether err wraps a *store.Fault.
func isFault(err error) bool {
	_, is := errors.AsType[*store.Fault](err)
	return is
}

// holdOutcome returns how a lease ended.
func holdOutcome(why error) outcome {
	switch {
	case errors.Is(why, holdfast.ErrLost): // first: the reason of a loss may be any error
		return lost
	case errors.Is(why, holdfast.ErrClosed):
		return closed
	case why == nil, errors.Is(why, holdfast.ErrNotHeld):
		return released
	}
	return failed
}

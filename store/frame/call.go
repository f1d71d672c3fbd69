package frame

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Call is an operation in progress.
type Call struct {
	// Context is the context of the caller. If that has no deadline, Context also ends after the limit (rule 11 of
	// package store).
	Context context.Context
	// Sent is when the operation began. The server counts ttls from a later instant (rule 5).
	Sent time.Time

	frame  *Frame
	caller context.Context
	limit  time.Duration
	cancel context.CancelFunc
}

// Begin checks an operation and begins it. If ctx has no deadline, the operation ends after limit. It returns the
// errors of [Frame.Check]. If the error is nil, End must be called.
func (f *Frame) Begin(ctx context.Context, name string, limit time.Duration) (Call, error) {
	if err := f.Check(ctx, name); err != nil {
		return Call{}, err
	}
	return f.Call(ctx, limit), nil
}

// Call is Begin for an operation that was checked already.
func (f *Frame) Call(ctx context.Context, limit time.Duration) Call {
	var within context.Context
	var cancel context.CancelFunc
	if f.SharedLimits {
		within, cancel = f.Shared(ctx, limit)
	} else {
		within, cancel = Within(ctx, limit)
	}
	return Call{Context: within, Sent: time.Now(), frame: f, caller: ctx, limit: limit, cancel: cancel}
}

// End releases the resources of the call.
func (c *Call) End() { c.cancel() }

// Until returns the instant up to which a claim is valid in this state, if the call succeeded.
func (c *Call) Until(state store.State, ttl time.Duration) time.Time {
	return c.frame.Drift.Until(state, c.Sent, ttl)
}

// Outcome returns the error for the caller of an operation that ended with err: nil if err is nil, ErrClosed if the
// store was closed meanwhile, the error of the caller's own context if that is done, an error of package store as it
// is, and any other error as a *store.Fault.
func (c *Call) Outcome(err error) error { return c.frame.Outcome(c.caller, c.Context, c.limit, err) }

// Outcome is [Call.Outcome] for a call that was bounded by [Within] or [Frame.Shared].
func (f *Frame) Outcome(caller, within context.Context, limit time.Duration, err error) error {
	if err == nil {
		if f.PushesWithCalls {
			f.PushesResumed()
		}
		return nil
	}
	if f.PushesWithCalls && !isResponse(err) {
		f.PushesLost()
	}
	if within.Err() != nil && caller.Err() == nil && !f.closed.Load() && !store.Final(err) && !store.Busy(err) {
		return f.Silent(limit)
	}
	return f.Fault(caller, err)
}

// isResponse reports whether err is a decision of the server, such as ErrMismatch, rather than a failure.
func isResponse(err error) bool {
	_, fault := errors.AsType[*store.Fault](err)
	return !fault && store.Final(err)
}

// Fault is [Call.Outcome] for an error that is not nil, of an operation without a limit.
func (f *Frame) Fault(caller context.Context, err error) error {
	if f.closed.Load() {
		return store.ErrClosed
	}
	if caller.Err() != nil {
		return caller.Err()
	}
	if _, already := errors.AsType[*store.Fault](err); already || isResponse(err) {
		return err
	}
	why, final := err, false
	if f.Explain != nil {
		why, final = f.Explain(err)
	}
	return &store.Fault{Store: f.Name, Final: final, Err: f.Mask(why)}
}

// Silent returns the Fault of a server that did not respond within limit. Its reason is a *store.NoResponseError.
func (f *Frame) Silent(limit time.Duration) error {
	return &store.Fault{Store: f.Name, Err: &store.NoResponseError{After: limit}}
}

// NotFinal returns err, but not as a final Fault. It is for errors about a claim that may still be in the queue: its
// caller must retry.
func NotFinal(err error) error {
	if f, ok := errors.AsType[*store.Fault](err); ok && f.Final {
		return &store.Fault{Store: f.Store, Err: f.Err}
	}
	return err
}

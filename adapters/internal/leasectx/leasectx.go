// Package leasectx joins the context of a lease with that of a caller, for locks that were acquired with TryLock: the
// context of such a lease does not end with the caller's.
package leasectx

import (
	"context"

	"github.com/holdfast-go/holdfast"
)

// Join returns a context that ends with the lease and with ctx, whichever is first, with the cause of that one. It has
// the values of the lease's context: holdfast.TokenFrom finds the token. The caller calls cancel when it no longer uses
// the context.
func Join(ctx context.Context, lease *holdfast.Lease) (joined context.Context, cancel context.CancelFunc) {
	held := lease.Context()
	inner, end := context.WithCancelCause(held)
	stop := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	return &joinedContext{Context: inner, held: held, caller: ctx, end: end}, func() { stop(); end(nil) }
}

// joinedContext checks both of its parents on every call, since a lease's context compares the clocks only when it is
// asked: a process that was paused sees the loss at its first call.
type joinedContext struct {
	context.Context
	held   context.Context
	caller context.Context
	end    context.CancelCauseFunc
}

func (c *joinedContext) Err() error {
	c.refresh()
	return c.Context.Err()
}

func (c *joinedContext) Done() <-chan struct{} {
	c.refresh()
	return c.Context.Done()
}

// refresh ends the context if one of its parents is over.
func (c *joinedContext) refresh() {
	if c.held.Err() == nil && c.caller.Err() != nil { // the end of held has ended Context too
		c.end(context.Cause(c.caller))
	}
}

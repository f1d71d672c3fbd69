package frame

import (
	"context"
	"time"
)

// Within is Bound if ctx has no deadline.
func Within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return Bound(ctx, limit)
}

// Bound returns a context that ends after limit, but has no deadline: gRPC would send one along with each request, as a
// header that is never the same, and the server would keep a timer for it.
func Bound(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	within, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(limit, cancel)
	return within, func() {
		timer.Stop()
		cancel()
	}
}

// A sharedLimit is a context that ends after a limit, for all calls of a short while.
type sharedLimit struct {
	context.Context
	limit time.Duration
	fresh time.Time // up to when new calls may use it
	end   context.CancelFunc
}

// freshPart of the limit is how much shorter than the limit a call may be bounded that shares a context.
const freshPart = 16

// Shared is Within for clients that look at nothing in a context but its end: where ctx can't end by itself, calls of a
// short while share one context, without ctx's values. A timer for each call would cost more than all else that a store
// does for it.
func (f *Frame) Shared(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	if ctx.Done() != nil {
		return context.WithTimeout(ctx, limit)
	}
	now := time.Now()
	s := f.shared.Load()
	if s != nil && s.limit != limit && !now.After(s.fresh) {
		return context.WithTimeout(f.life, limit) // calls of two limits must not leave a context each behind
	}
	if s == nil || now.After(s.fresh) {
		s = &sharedLimit{limit: limit, fresh: now.Add(limit / freshPart)}
		s.Context, s.end = context.WithTimeout(f.life, limit) // it ends by itself: others may still use it
		f.shared.Store(s)
	}
	return s.Context, func() {}
}

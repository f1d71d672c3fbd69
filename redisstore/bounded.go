package redisstore

import (
	"context"
	"time"
)

// A bounded is a context that ends after a limit, for all calls of a short while that have no deadline of their own. A
// timer for each call would cost more than all else that this package does for a call.
type bounded struct {
	context.Context
	limit  time.Duration
	fresh  time.Time // up to when new calls may use it
	cancel context.CancelFunc
}

// freshPart of the limit is how much shorter than the limit such a call may be bounded.
const freshPart = 16

// within bounds a call by limit if ctx has no deadline.
func (s *Store) within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	if ctx.Done() != nil || ctx.Value(receiptKey{}) != nil { // what many calls share has no receipt of one
		return context.WithTimeout(ctx, limit)
	}
	now := time.Now()
	b := s.shared.Load()
	if b != nil && b.limit != limit && !now.After(b.fresh) {
		return context.WithTimeout(s.life, limit) // calls of two limits must not leave a context each behind
	}
	if b == nil || now.After(b.fresh) {
		b = &bounded{limit: limit, fresh: now.Add(limit / freshPart)}
		b.Context, b.cancel = context.WithTimeout(s.life, limit) // it ends by itself: others may still use it
		s.shared.Store(b)
	}
	return b.Context, func() {}
}

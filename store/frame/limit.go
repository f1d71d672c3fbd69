package frame

import (
	"context"
	"sync"
	"time"
)

// Within returns ctx if it has a deadline, and otherwise Bound(ctx, limit).
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

// A sharedLimit is a context that ends after a limit. All calls that begin within a short time share it.
type sharedLimit struct {
	context.Context
	limit time.Duration
	fresh time.Time // up to when new calls may use it
	end   context.CancelFunc
}

// freshPart bounds how much earlier than its limit a call in a shared context may end: by limit/freshPart.
const freshPart = 16

// Shared is Within for client libraries that use nothing of a context but its end. If ctx can't end, all calls that
// begin within a short time share one context, which does not have the values of ctx. If ctx can end, the timer is set
// only when the call has to wait. A timer for each call would cost more than everything else that a store does for it.
func (f *Frame) Shared(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	now := time.Now()
	if ctx.Done() != nil {
		lazy := &lazyLimit{Context: ctx, deadline: now.Add(limit)}
		return lazy, lazy.end
	}
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

// A lazyLimit is a context with a deadline. Its timer is set when Done is first called.
type lazyLimit struct {
	context.Context // the caller's
	deadline        time.Time

	mu     sync.Mutex
	timed  context.Context // nil: nothing has waited for its end yet
	cancel context.CancelFunc
	ended  bool
}

// Deadline implements context.Context.
func (l *lazyLimit) Deadline() (deadline time.Time, ok bool) { return l.deadline, true }

// Done implements context.Context.
func (l *lazyLimit) Done() <-chan struct{} { return l.start().Done() }

// Err implements context.Context. It also reports a deadline that has passed before the timer was set.
func (l *lazyLimit) Err() error {
	if err := l.Context.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.timed != nil:
		return l.timed.Err()
	case l.ended:
		return context.Canceled
	case !time.Now().Before(l.deadline):
		return context.DeadlineExceeded
	}
	return nil
}

// start returns the context with the timer, and sets the timer if it is not set yet.
func (l *lazyLimit) start() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timed == nil {
		l.timed, l.cancel = context.WithDeadline(l.Context, l.deadline)
		if l.ended {
			l.cancel()
		}
	}
	return l.timed
}

// end ends the context.
func (l *lazyLimit) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.cancel != nil {
		l.cancel()
	}
}

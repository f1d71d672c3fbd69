package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Once calls fn, unless a process that uses the same store has called Once with this name and occasion in the last
// keepFor. It reports whether it called fn.
//
// It is for jobs that are scheduled on several machines. The occasion says which run of the job is meant, in the same
// words on all machines: the scheduled time, such as "2026-11-18T02:00", or the ID of a message. A lock alone is not
// enough for that: if the job is short, the first machine has released the lock before the clock of the second says
// that it is time. Once remembers the occasion in the store before it calls fn. So fn runs at most once, also if it
// takes no time, if it fails or panics, and if its process dies; as long as all machines come within keepFor of the
// first. Choose keepFor longer than their clocks, and delays on their way, can differ. Nothing is left in the store
// after that.
//
// Once does not wait. Runs for different occasions do not exclude each other: for that, fn acquires a lock. Its context
// is ctx.
//
// The store keeps the occasion as a lock of the name "name@occasion". The occasion must not contain an @. Once returns
// an *Error if fn was not called for another reason than that it had been; it wraps ErrUnsupported if the store cannot
// keep locks without a holder, ErrBadTTL if keepFor is not possible in it, and otherwise the errors of [Mutex.TryLock].
// If fn was called, Once returns fn's error as it is.
//
// If the store does not confirm that it remembers the occasion, fn is not called. Then the occasion is forgotten again,
// in the background, and Once can be repeated. But calls in the meantime report that fn was called, and if this process
// dies or the store is not reachable, the occasion may stay remembered: then fn runs on no machine. A process that is
// paused for longer than keepFor before it calls fn may call it beside another.
func (c *Client) Once(ctx context.Context, name, occasion string, keepFor time.Duration,
	fn func(ctx context.Context) error,
) (called bool, err error) {
	if first, err := c.first(ctx, name, occasion, keepFor, fn != nil); err != nil || !first {
		return false, c.failed("once", name, err)
	}
	return true, fn(ctx)
}

// first remembers an occasion and reports whether that was not done before.
func (c *Client) first(ctx context.Context, name, occasion string, keepFor time.Duration, callable bool) (bool, error) {
	switch {
	case !callable:
		return false, errNoFunction
	case occasion == "" || strings.Contains(occasion, "@"):
		return false, fmt.Errorf("%w: an occasion is not empty and has no @", ErrBadOption)
	}
	if err := c.checkSpell(keepFor); err != nil {
		return false, err
	}
	k := c.lock(name+"@"+occasion, nil)
	l, err := k.acquire(ctx, &request{op: "once", demand: wholeLock, try: true, alone: true})
	if errors.Is(err, ErrLocked) {
		return false, nil
	}
	if err != nil {
		return false, errors.Unwrap(err)
	}
	if _, err := l.detach(ctx, keepFor); err != nil {
		return false, err
	}
	return true, nil
}

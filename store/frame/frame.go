package frame

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// AskTimeout bounds requests that have neither a deadline nor a ttl.
const AskTimeout = 10 * time.Second

// A Config has what a Frame needs from its store.
type Config struct {
	// Name identifies the store in errors: its kind and its masked address.
	Name string

	// Drift is how much earlier than the server a client considers its claim expired.
	Drift Drift

	// Explain returns an error of the store's client library in words for the user, and reports whether a retry is
	// useless. It is not called for a *store.Fault nor for errors of package store. If Explain is nil, errors stay as
	// they are, and none is final.
	Explain func(error) (why error, final bool)

	// PushesWithCalls means that pushes arrive over the same connection as responses, so that a failed call may have
	// lost some. The first call that succeeds after a failure then pushes for store.Everyone.
	PushesWithCalls bool

	// SharedLimits means that calls without a deadline are bounded by [Frame.Shared] instead of [Within].
	SharedLimits bool
}

// A Frame is the common part of one open store. Its methods may be called by many goroutines at once.
type Frame struct {
	Config

	notify     atomic.Pointer[func(store.ID, store.Status)]
	pushesLost atomic.Bool // pushes may have been lost
	closed     atomic.Bool
	life       context.Context
	end        context.CancelFunc
	tasks      tasks
	secrets    secrets
	shared     atomic.Pointer[sharedLimit]
}

// tasks is the background work of a store.
type tasks struct {
	sync.WaitGroup
	mu   sync.Mutex
	over bool // no more may begin
}

// New returns the frame of a store that has just been opened.
func New(config Config) *Frame {
	f := &Frame{Config: config}
	f.life, f.end = context.WithCancel(context.Background())
	return f
}

// Check returns an error if a call must not be sent: ErrBadName, ErrClosed, or the error of ctx.
func (f *Frame) Check(ctx context.Context, name string) error {
	if err := store.CheckName(name); err != nil {
		return err
	}
	return f.Alive(ctx)
}

// Alive is Check for a call without a name.
func (f *Frame) Alive(ctx context.Context) error {
	if f.closed.Load() {
		return store.ErrClosed
	}
	return ctx.Err()
}

// CheckAll is Check for the claims of a Keep. It returns the shortest of their ttls, which bounds the call.
func (f *Frame) CheckAll(ctx context.Context, claims []store.Claim) (limit time.Duration, err error) {
	for i := range claims {
		if err := store.CheckName(claims[i].Name); err != nil {
			return 0, err
		}
		if i == 0 || claims[i].TTL < limit {
			limit = claims[i].TTL
		}
	}
	return limit, f.Alive(ctx)
}

// Notify sets the receiver of pushes (see store.Store).
func (f *Frame) Notify(fn func(store.ID, store.Status)) { f.notify.Store(&fn) }

// Push delivers a push to the client. Before Notify and after Close it is dropped.
func (f *Frame) Push(id store.ID, status store.Status) {
	if notify := f.notify.Load(); notify != nil && !f.closed.Load() {
		(*notify)(id, status)
	}
}

// PushesLost notes that pushes may have been lost, as when the connection they come over has ended.
func (f *Frame) PushesLost() { f.pushesLost.Store(true) }

// PushesResumed notes that pushes arrive again. If some may have been lost, it pushes for store.Everyone.
func (f *Frame) PushesResumed() {
	if f.pushesLost.Load() && f.pushesLost.CompareAndSwap(true, false) {
		f.Push(store.Everyone, store.Status{})
	}
}

// Life returns a context that ends with the store, for its background work.
func (f *Frame) Life() context.Context { return f.life }

// Go runs background work of the store, which must return when Life has ended. It reports false, and runs nothing, once
// Wait has been called.
func (f *Frame) Go(work func()) bool {
	f.tasks.mu.Lock()
	defer f.tasks.mu.Unlock()
	if !f.tasks.over {
		f.tasks.Go(work)
	}
	return !f.tasks.over
}

// Closed reports whether Close has begun.
func (f *Frame) Closed() bool { return f.closed.Load() }

// Shut begins to close the store: calls are refused from now on. It reports false if that has happened before.
func (f *Frame) Shut() bool { return !f.closed.Swap(true) }

// End ends Life. Wait waits for the background work to return.
func (f *Frame) End() { f.end() }

// Wait waits until everything that Go has started has returned.
func (f *Frame) Wait() {
	f.tasks.mu.Lock()
	f.tasks.over = true
	f.tasks.mu.Unlock()
	f.tasks.Wait()
}

// Names yields the names that list returns, or one error: ErrClosed, or that of ctx or list. list is called when the
// iteration begins. It is for a store that reads all of its names at once.
func (f *Frame) Names(ctx context.Context, list func(context.Context) ([]string, error)) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		err := f.Alive(ctx)
		var names []string
		if err == nil {
			names, err = list(ctx)
		}
		if err != nil {
			yield("", err)
			return
		}
		for _, name := range names {
			if !yield(name, nil) {
				return
			}
		}
	}
}

package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// An Observer is notified of what happens to a client's locks, for metrics and traces. Package otelholdfast has one for
// OpenTelemetry. Embed NopObserver to implement only some of the methods.
//
// Its methods, and the functions that they return, are called by many goroutines, some with the client's mutex locked.
// They must not block, and must not call the client or its leases. They may add values to the contexts that they
// receive, and nothing else.
type Observer interface {
	// Waiting is called when a lock is requested. The context that it returns replaces ctx. The function that it
	// returns, which may be nil, is called once when the wait is over: with nil, or with the reason why nothing was
	// acquired.
	Waiting(ctx context.Context, r Request) (context.Context, func(err error))

	// Holding is called when a lease begins, with the context that Waiting returned. If the lease began without a wait,
	// by re-entrance or downgrade, there is no Waiting before it. The lease's context is derived from the one that
	// Holding returns. The function, which may be nil, is called once when the lease is over, with the reason:
	// ErrNotHeld if it was unlocked or downgraded, ErrLost, or ErrClosed.
	Holding(ctx context.Context, r Request, token Token) (context.Context, func(why error))

	// Renewed is called after each call that renewed claims, with their number and the duration of the call.
	Renewed(store string, claims int, took time.Duration, err error)

	// Jeopardy is called when a lease could not be renewed. If no renewal succeeds, it is lost after left.
	Jeopardy(r Request, token Token, left time.Duration, err error)

	// HandedOver is called when a lock was handed over from one goroutine of this process to another, without the
	// store.
	HandedOver(r Request, token Token)

	// Deadlocked is called when a wait ended because it had closed a deadlock.
	Deadlocked(r Request, err error)

	// Retried is called when the server has rolled back a call because of other calls, and the store repeats it. That
	// is a matter of the server's transactions, which may concern different names, and does not mean contention for a
	// lock.
	Retried(store string, err error)
}

// A Request describes what was requested.
type Request struct {
	Op    string // lock, trylock, rlock, tryrlock, acquire, tryacquire, campaign; also downgrade, renew
	Name  string
	Store string // name and masked address
	Kind  Kind
	Units int // the units of Limit that were requested
	Limit int
}

// Shared reports whether the request is that of a reader or for units of a semaphore.
func (r Request) Shared() bool { return r.Kind != store.Lock || r.Units != r.Limit }

// described returns r for an Observer.
func (r *request) described() Request {
	return newRequest(r.op, r.lock.name, r.lock.client.abilities.Store, r.demand)
}

// newRequest returns the description of a request.
func newRequest(op, name, storeName string, a store.Demand) Request {
	return Request{Op: op, Name: name, Store: storeName, Kind: a.Kind, Units: int(a.Units), Limit: int(a.Limit)}
}

// observe notifies o, if it is not nil, that r waits. It returns the function to call when the wait is over, or nil.
func (r *request) observe(o Observer) (over func(error)) {
	if o != nil {
		r.ctx, over = o.Waiting(r.ctx, r.described())
	}
	return over
}

// observeRetries connects the store to the Observer, if the client has one and the store is a Retrier.
func (c *Client) observeRetries() {
	if s, ok := c.store.(store.Retrier); ok && c.settings.observer != nil {
		s.NotifyRetry(func(err error) { c.settings.observer.Retried(c.abilities.Store, err) })
	}
}

// NopObserver does nothing.
type NopObserver struct{}

// Waiting implements Observer.
func (NopObserver) Waiting(ctx context.Context, _ Request) (context.Context, func(error)) {
	return ctx, nil
}

// Holding implements Observer.
func (NopObserver) Holding(ctx context.Context, _ Request, _ Token) (context.Context, func(error)) {
	return ctx, nil
}

// Renewed implements Observer.
func (NopObserver) Renewed(string, int, time.Duration, error) {}

// Jeopardy implements Observer.
func (NopObserver) Jeopardy(Request, Token, time.Duration, error) {}

// HandedOver implements Observer.
func (NopObserver) HandedOver(Request, Token) {}

// Deadlocked implements Observer.
func (NopObserver) Deadlocked(Request, error) {}

// Retried implements Observer.
func (NopObserver) Retried(string, error) {}

var _ Observer = NopObserver{}

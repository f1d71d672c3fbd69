package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// An Observer is told what happens to a client's locks, for metrics and traces. Package otelholdfast has one for
// OpenTelemetry. Embed NopObserver to be told of some things only.
//
// Its methods, and the functions that they return, are called in the middle of things, by many goroutines. They
// must not block, and must not call the client or its leases. To the contexts that they are given they may add values
// and nothing else.
type Observer interface {
	// Waiting is called when a lock is asked for. The context that it returns stands for ctx from then on. The
	// function that it returns, which may be nil, is called once when the wait is over: with nil, or with why
	// nothing was got.
	Waiting(ctx context.Context, r Request) (context.Context, func(err error))

	// Holding is called when a lease begins, with the context that Waiting returned. A lease that nobody waited for,
	// by re-entrance or downgrade, has no Waiting before it. The lease's context is derived from the one that
	// Holding returns. The function, which may be nil, is called once when the lease
	// is over, with why: ErrNotHeld if it was given back, ErrLost, or ErrClosed.
	Holding(ctx context.Context, r Request, token Token) (context.Context, func(why error))

	// Renewed is called after each call that kept claims alive, with how many and how long it took.
	Renewed(store string, claims int, took time.Duration, err error)

	// Jeopardy is called when a lease could not be renewed, and is lost after left if that goes on.
	Jeopardy(r Request, token Token, left time.Duration, err error)

	// HandedOver is called when a lock passed from one goroutine of this process to another without the store.
	HandedOver(r Request, token Token)

	// Deadlocked is called when a wait was given up because it closed a deadlock.
	Deadlocked(r Request, err error)

	// Retried is called when the server has rolled back a call because of others, and the store repeats it. It is a
	// matter of the server's transactions, with names that may have nothing in common, and says nothing of contention
	// for a lock.
	Retried(store string, err error)
}

// A Request says what was asked for.
type Request struct {
	Op    string // lock, trylock, rlock, tryrlock, acquire, tryacquire, campaign; also downgrade, renew
	Name  string
	Store string // name and masked address
	Kind  Kind
	Units int // of Limit
	Limit int
}

// Shared says whether the lease is to be a reader's or a semaphore's.
func (r Request) Shared() bool { return r.Kind != store.Lock || r.Units != r.Limit }

// described is r as an Observer is told of it.
func (r *request) described() Request {
	return newRequest(r.op, r.lock.name, r.lock.client.abilities.Store, r.demand)
}

func newRequest(op, name, storeName string, a store.Demand) Request {
	return Request{Op: op, Name: name, Store: storeName, Kind: a.Kind, Units: int(a.Units), Limit: int(a.Limit)}
}

// observe tells o, if there is one, that r waits. It returns what is to be called when the wait is over, or nil.
func (r *request) observe(o Observer) (over func(error)) {
	if o != nil {
		r.ctx, over = o.Waiting(r.ctx, r.described())
	}
	return over
}

// observeRetries has the store tell the Observer, if there are both.
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

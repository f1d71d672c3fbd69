package store

import (
	"context"
	"iter"
)

// A Store keeps queues of claims. It belongs to one client, which calls Notify before any other method and Close at the
// end. Its methods may be called by many goroutines at once. The rules are in the package's documentation.
type Store interface {
	// Join appends c to its resource's queue and returns its status.
	//
	//  1. It refuses a bad name before anything is sent, and a bad floor before anything is written.
	//  2. It removes claims that have expired (rule 4).
	//  3. If c.ID is already in the queue, it keeps that claim and returns its status, so that a caller whose response
	//     was lost can repeat the call. If there is a tombstone for c.ID, it returns Gone (rule 8).
	//  4. If the kind or limit of c differs from those of the first claim, it returns a *MismatchError with those of
	//     the first claim, and nothing was joined. A store that must write before it can read removes what it wrote,
	//     and never lets it hold. With c.AnyLimit only the kind counts.
	//  5. It draws a ticket above c.Floor and appends c, under one serialisation.
	//  6. With c.Try it appends c only if c is held at once. Otherwise it returns Gone, with the Holder if the store
	//     knows it without a further request.
	Join(ctx context.Context, c Claim) (Status, error)

	// Keep extends the life of these claims. It returns the status of each, in the same order. If one status is not
	// known, its Err says why: a queue in a newer format does not affect the other claims. If Keep returns an error,
	// none is known. Keep carries what may change while a claim lives: fewer units, the current owner and turn, and
	// what the owner waits for. The caller may reuse the slice when Keep returns, even if a request is still on its
	// way.
	Keep(ctx context.Context, cs []Claim) ([]Status, error)

	// Leave removes c from its queue, whether held or waiting. It is not an error if c is not in the queue, because it
	// has left before or never joined. The next claims that fit are granted before Leave returns. If c.Ticket is 0,
	// Leave writes a tombstone (rule 8).
	Leave(ctx context.Context, c Claim) error

	// Break removes the claim with this ticket, for operators. It returns ErrNotHeld if there is none. The claim's
	// client is notified with a push if the store can push, and by its next Keep in any case.
	Break(ctx context.Context, name string, ticket uint64) error

	// Queue returns the queue of name, which is empty if no claim uses the name. A store may read a long queue in
	// parts, so as not to delay other calls: claims that join or leave meanwhile may be included or not.
	Queue(ctx context.Context, name string) (Queue, error)

	// Names iterates over the names that begin with prefix and have a claim, in no particular order. Names that appear
	// or disappear meanwhile may be included or not. A queue that cannot be read, because it was written by hand or by
	// a newer version, does not affect the others: its name is included, and Queue returns the error. The first error
	// ends the iteration.
	Names(ctx context.Context, prefix string) iter.Seq2[string, error]

	// Notify sets the function that receives pushes: grants and losses between calls. It is called once, before the
	// first Join. fn does not block. It may be called in any order, by any goroutine, also for claims that the client
	// no longer knows. A push for Everyone means that pushes may have been lost.
	Notify(fn func(ID, Status))

	// Abilities returns what this store can do. They never change while the store is open.
	Abilities() Abilities

	// Close closes the store. It does not remove claims: the client has done that. Calls after Close return ErrClosed.
	// A network client that the user passed in is not closed.
	Close() error
}

// A Retrier is implemented by a Store whose server may roll a call back because of other calls: a serialisation
// failure, a deadlock inside the server. The store repeats such a call. Only its caller waits for that.
type Retrier interface {
	// NotifyRetry sets the function that is called with the error of each call that was rolled back and is repeated.
	// It is called at most once, before the first Join. fn does not block.
	NotifyRetry(fn func(err error))
}

// An Inheritor is implemented by a Store that learns from the operating system when its client's process has died, and
// then removes the client's claims before their ttl has passed. If the client has started a process that works under
// its claims, the claims live for their ttl as long as that process, or one that it started, is alive.
type Inheritor interface {
	// Inherit makes every process that the client starts from now on, until end is called, inherit an open descriptor.
	// The client does not count as dead while any process has it open. On systems without such descriptors Inherit does
	// nothing.
	Inherit() (end func(), err error)
}

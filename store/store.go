package store

import (
	"context"
	"iter"
)

// A Store keeps lines of claims. It belongs to one client, which calls Notify before anything else and Close at
// the end. Its methods may be called by many goroutines at once. The rules are in the package's documentation.
type Store interface {
	// Join puts c at the end of its resource's line and reports where it stands.
	//
	//  1. A name that must be refused is refused before anything is sent, and a floor before anything is written.
	//  2. What is out is removed (rule 4).
	//  3. If c.ID already stands, it is kept, and its standing is the answer: an answer that was lost can be
	//     asked for again. If it has a tombstone, the answer is Gone (rule 8).
	//  4. If c's kind or limit differs from the head's, the error is a *MismatchError with what the head has, and
	//     nothing was joined. A store that must write before it can look withdraws what it wrote, and never lets it hold.
	//  5. The ticket is drawn, above c.Floor, and c takes its place, under one serialisation.
	//  6. With c.Try it joins only if it is held at once. Otherwise the answer is Gone, with the Holder if the
	//     store knows it for nothing.
	Join(ctx context.Context, c Claim) (Status, error)

	// Keep says that these claims live on, and reports where each stands, in the same order, or in its Err why
	// that one is not known: a line in a newer format costs the other claims nothing. An error means that nothing
	// is known of any of them. Keep carries what may change while a claim stands: fewer units, owner and turn of
	// the moment, and what the owner waits for. The slice is the caller's again when Keep returns, also while a
	// request is still on its way.
	Keep(ctx context.Context, cs []Claim) ([]Status, error)

	// Leave takes c out of its line, wherever it stands. Leaving twice is no error, nor is leaving a line that
	// one never joined. Whoever now fits is granted before Leave returns. With c.Ticket 0 it leaves a tombstone
	// (rule 8).
	Leave(ctx context.Context, c Claim) error

	// Break takes out whoever has this ticket, for operators. If nobody has it, the error is ErrNotHeld. Its
	// owner is told with a push if the store can, and by its next Keep in any case.
	Break(ctx context.Context, name string, ticket uint64) error

	// Line reports who stands in the line of name. A name that nobody claims has an empty line. A store may read a long
	// line in parts, so that it holds up nobody else: who comes or leaves meanwhile may be seen or not.
	Queue(ctx context.Context, name string) (Queue, error)

	// Names goes through the names that begin with prefix and have a line, in no particular order. Names that
	// come or go meanwhile may be seen or not. A line that cannot be read, since it was written by hand or by a newer
	// version, costs the others nothing: it is named, and Line says what is the matter. The first error ends it.
	Names(ctx context.Context, prefix string) iter.Seq2[string, error]

	// Notify sets whom to tell of grants and losses between calls. It is called once, before the first Join.
	// fn does not block, and may be told in any order, by any goroutine, also of claims that it no longer
	// knows. A push for Everyone says that pushes may have been lost.
	Notify(fn func(ID, Status))

	// Abilities says what this store promises. It never changes while the store is open.
	Abilities() Abilities

	// Close ends the store. It leaves no claim: the client does that before. Calls after it get ErrClosed. A
	// network client that the user handed in is not closed.
	Close() error
}

// A Retrier is implemented by a Store whose server may roll a call back because of other calls: a serialisation failure,
// a deadlock of the server's own. The store repeats such calls, and nobody waits for it but the caller.
type Retrier interface {
	// NotifyRetry sets the function that is called with the error of each call that was rolled back and is repeated.
	// It is called at most once, before the first Join. fn does not block.
	NotifyRetry(fn func(err error))
}

// An Inheritor is implemented by a Store that learns from the operating system when its client's process has died,
// and then removes the client's claims before their ttl has passed. The client may start a process that works under
// its claims. As long as that one lives, or a process that it has started, the claims stand for their ttl.
type Inheritor interface {
	// Inherit has every process that the client starts from now on, until end is called, inherit an open descriptor.
	// The client is not taken for dead while any process has it open. On systems that have no such thing it does
	// nothing.
	Inherit() (end func(), err error)
}

package sqlstore

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// An Engine is one client's connection to one kind of database. Its methods may be called by many goroutines at once.
// They return when their context is done; what they requested may then still happen.
//
// Errors are those of package store, or a *store.Fault.
type Engine interface {
	// Join, Keep, Leave, Break, Detach and Attach do what the methods of store.Store and store.Detacher with these
	// names do, each serialised with all other calls for its resource. A claim that is refused is reported as a Result
	// or as one of store's errors, never as a Fault. Keep does not retain its slice.
	Join(ctx context.Context, c *store.Claim) (Result, error)
	Keep(ctx context.Context, cs []store.Claim) ([]Result, error)
	Leave(ctx context.Context, c *store.Claim) error
	Break(ctx context.Context, name string, ticket uint64) error
	Detach(ctx context.Context, c *store.Claim, as store.ID, d time.Duration) (Result, error)
	Attach(ctx context.Context, c *store.Claim, from store.ID) (Result, error)

	// Queue and Names return what is in the database.
	Queue(ctx context.Context, name string) (store.Queue, error)
	Names(ctx context.Context, prefix string) ([]string, error)

	// Poll returns the state of claims of this client that were waiting, without keeping them. It also grants claims
	// that fit and were not granted: an operator may have deleted a holder's row by hand. RecheckIn may be 0 although a
	// claim ahead can expire.
	Poll(ctx context.Context, waiting []store.Claim) ([]Result, error)

	// Sweep removes expired claims from all queues.
	Sweep(ctx context.Context) error

	// Listen subscribes this client to its grants, for as long as Listen is called again and again, as it is while
	// claims wait. It reports whether the client is subscribed. Earlier grants may have been missed. A client that only
	// holds does not subscribe: it learns from its next Keep that its claim was broken.
	Listen() bool

	// Notify sets the function that receives pushes. It is called once, before any other method.
	Notify(fn func(store.ID, store.Status))

	// Abilities returns what the engine can do.
	Abilities() store.Abilities

	// Close ends the connection. Calls under way may fail.
	Close() error
}

// A Detector is an Engine that can report at almost no cost that a Poll would find nothing new.
type Detector interface {
	// Changed reports whether anything may have been written since its last call, or whether a client has died that was
	// ahead of a claim at the last Poll.
	Changed(ctx context.Context) (bool, error)
}

// A Pace is how often the database is polled while claims wait.
type Pace struct {
	First, Most time.Duration // without pushes: the pause after a change, and the longest pause
	Listening   time.Duration // the pause with pushes, which may be lost
}

// A Result is the status of a claim, in the time of the database.
type Result struct {
	State     store.State
	Ticket    uint64
	Ahead     int           // how many claims are ahead; -1: not known
	RecheckIn time.Duration // a waiting claim: how long until something ahead of it can expire; 0: nothing can
	Holder    *store.Entry
	Err       error // as in store.Status
}

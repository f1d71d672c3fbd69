package sqlstore

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// An Engine is one client's connection to one kind of database. Its methods may be called by many goroutines,
// and return when their context is done: what they asked for may then still happen.
//
// What it returns beside store's own errors is a *store.Fault.
type Engine interface {
	// Join, Keep, Leave and Break are the steps of store.Store of that name, each under the serialisation of its
	// resource. A claim that is refused is an answer or one of store's errors, never a Fault. Keep does not hold on
	// to its slice.
	Join(ctx context.Context, c *store.Claim) (Answer, error)
	Keep(ctx context.Context, cs []store.Claim) ([]Answer, error)
	Leave(ctx context.Context, c *store.Claim) error
	Break(ctx context.Context, name string, ticket uint64) error

	// Line and Names read.
	Queue(ctx context.Context, name string) (store.Queue, error)
	Names(ctx context.Context, prefix string) ([]string, error)

	// Look says where claims of this client stand that were waiting, without keeping them. It also grants whoever
	// should have been granted: a claim may have been taken out by hand.
	Look(ctx context.Context, waiting []store.Claim) ([]Answer, error)

	// Sweep removes what is out in all lines.
	Sweep(ctx context.Context) error

	// Listen has this client hear of its grants for as long as it is called again and again, as it is while claims wait.
	// It reports whether the client does. Grants of before may have been missed. A client that only holds is not made to
	// listen: that it was broken it learns from its next Keep.
	Listen() bool

	// Notify sets whom to tell. It is called once, before anything else.
	Notify(fn func(store.ID, store.Status))

	Abilities() store.Abilities
	Close() error
}

// A Detector is an Engine that can tell at next to no cost that a Look would see nothing new.
type Detector interface {
	// Changed reports whether anything may have been written since it was last called, or whether a client has died
	// that was ahead of a claim when Look last looked.
	Changed(ctx context.Context) (bool, error)
}

// A Pace says how often the database is looked at while claims wait.
type Pace struct {
	First, Most time.Duration // without pushes: shortly after something has happened, and later
	Listening   time.Duration // with pushes, which may be lost
}

// An Answer is where a claim stands, in the database's own time.
type Answer struct {
	State  store.State
	Ticket uint64
	Ahead  int           // -1: not known
	Opens  time.Duration // a waiting claim: how long until something ahead of it can run out; 0: nothing can
	Holder *store.Entry
	Err    error // as in store.Status
}

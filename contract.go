package holdfast

import "github.com/holdfast-go/holdfast/store"

// The types of the contract with stores that users of locks meet. They are declared in package store, for those who
// write stores, and named here, so that nobody else has to import it.
type (
	// A Store keeps the queues of claims. The packages of the stores make them.
	Store = store.Store

	// Abilities says what a store promises: see [Client.Abilities].
	Abilities = store.Abilities

	// An Owner says which process and job made a claim, for people and for finding deadlocks.
	Owner = store.Owner

	// A Kind tells locks from semaphores.
	Kind = store.Kind

	// A Fault is a failure of the store itself: unreachable, refused, wrong password, read-only. It is never reported as
	// contention.
	Fault = store.Fault

	// A MismatchError is an ErrMismatch that says how the name is in use.
	MismatchError = store.MismatchError
)

// The kinds of queues.
const (
	KindLock      = store.Lock      // a mutex, a read-write lock, an election
	KindSemaphore = store.Semaphore // a counting semaphore
)

// Abilities returns what the client's store promises.
func (c *Client) Abilities() Abilities { return c.abilities }

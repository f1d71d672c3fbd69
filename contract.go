package holdfast

import "github.com/holdfast-go/holdfast/store"

// The types of package store that the functions of this package take or return. They are declared there, for authors of
// stores, and named here, so that a program which uses locks need not import that package.
type (
	// A Store keeps the queues of claims. The packages of the stores make them.
	Store = store.Store

	// Abilities describe what a store can do: see [Client.Abilities].
	Abilities = store.Abilities

	// A Survival is a set of events through which a store's tokens keep rising: see [Abilities].
	Survival = store.Survival

	// An Owner describes the process and the job that made a claim, for people and for finding deadlocks.
	Owner = store.Owner

	// A Kind tells locks from semaphores.
	Kind = store.Kind

	// A Demand is what a claim requests: units of a limit, of one kind of queue.
	Demand = store.Demand

	// A Claim is one claim of a client in a queue: see [Lease.Pin].
	Claim = store.Claim

	// A Fault is a failure of the store itself: unreachable, refused, wrong password, read-only. It is never reported
	// as contention.
	Fault = store.Fault

	// A MismatchError is an ErrMismatch that reports how the name is in use.
	MismatchError = store.MismatchError
)

// The kinds of queues.
const (
	KindLock      = store.Lock      // a mutex, a read-write lock, an election
	KindSemaphore = store.Semaphore // a counting semaphore
)

// The events that tokens can survive.
const (
	SurvivesRestart   = store.SurvivesRestart   // a restart of the server with its data
	SurvivesDataLoss  = store.SurvivesDataLoss  // a restart of the server without its data
	SurvivesClockBack = store.SurvivesClockBack // a server clock that is set back
	SurvivesFailover  = store.SurvivesFailover  // a failover to a replica
)

// Abilities returns what the client's store can do.
func (c *Client) Abilities() Abilities { return c.abilities }

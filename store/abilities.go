package store

import "time"

// Abilities describe what a store can do. A call that needs an ability which the store lacks returns ErrUnsupported.
type Abilities struct {
	// Store is the name and the masked address of the store, for people, as in "redis at 127.0.0.1:6379".
	Store string

	// Identity identifies the set of names that this store sees: a random id that the server itself keeps, the same for
	// every client whatever address it uses, with the prefix. Two stores with one Identity see the same queue under a
	// name; two with different ones never do. LockAll orders the locks of several stores by it.
	Identity string

	// Queue: claims wait in a queue, so that locks are fair and deadlocks can be found.
	Queue bool

	// Shared: several claims can hold at once, so that there are readers and semaphores.
	Shared bool

	// ReadersOnly: the only shared claims are readers. There are no semaphores, and no downgrades. It is true only if
	// Shared is.
	ReadersOnly bool

	// Grace: the store can keep a claim for longer than its holder believes it holds.
	Grace bool

	// Detach: a held claim can outlive its client, and be passed on to another one. The store is then a Detacher.
	Detach bool

	// Alternative says where to find what this store lacks, for the end of an error, as in "mode=queue has them". It
	// may be empty.
	Alternative string

	// MinTTL and MaxTTL bound the ttl of a claim.
	MinTTL, MaxTTL time.Duration

	// SessionTTL is not 0 if all claims of a client live as long as one session. It is then the default ttl, and the
	// least that a claim can have.
	SessionTTL time.Duration

	// TakeoverTTLs and TakeoverPlus bound a takeover: after a holder died, the next claim is granted within
	// TakeoverTTLs times the holder's ttl, plus TakeoverPlus.
	TakeoverTTLs int
	TakeoverPlus time.Duration

	// Tokens are the events through which tickets keep rising.
	Tokens Survival
}

// A Survival is a set of events that tickets survive, each alone.
type Survival uint8

// The events that tickets can survive.
const (
	SurvivesRestart   Survival = 1 << iota // a restart of the server with its data
	SurvivesDataLoss                       // a restart of the server without its data
	SurvivesClockBack                      // a server clock that is set back
	SurvivesFailover                       // a failover to a replica
)

// Has reports whether tickets survive all events of want.
func (s Survival) Has(want Survival) bool { return s&want == want }

package store

import "time"

// Abilities says what a store promises. Callers that need what a store lacks get ErrUnsupported.
type Abilities struct {
	// Store names the store and its masked address for people, as in "redis at 127.0.0.1:6379".
	Store string

	// Identity names the space of names that this store sees: a random id that the server itself keeps, the same
	// for every client whatever address it uses, with the prefix. Two stores with one Identity see the same line
	// under a name; two with different ones never do. It orders locks over several stores.
	Identity string

	Queue  bool // keeps a line: fair, and deadlocks can be found
	Shared bool // has shared claims: readers and semaphores
	Grace  bool // can keep a place longer than its owner believes

	// ReadersOnly: of shared claims it has only readers. It has no semaphores, and claims don't shrink. It is true only
	// if Shared is.
	ReadersOnly bool

	// Instead says where to find what this store lacks, for the end of an error, as in "mode=queue has them". May be empty.
	Alternative string

	// MinTTL and MaxTTL bound the ttl of a claim. SessionTTL is not 0 if the store's time is a session that all
	// claims of a client share: then it is the default, and the least that a claim can ask for.
	MinTTL, MaxTTL, SessionTTL time.Duration

	// After a holder's death the next is granted within TakeoverTTLs times its ttl and TakeoverPlus, at worst.
	TakeoverTTLs int
	TakeoverPlus time.Duration

	// Tokens says what tickets keep rising through.
	Tokens Survival
}

// Survival is a set of events that tickets survive, each alone.
type Survival uint8

// What tickets can survive.
const (
	SurvivesRestart   Survival = 1 << iota // of the server, with its data
	SurvivesDataLoss                       // a restart without data
	SurvivesClockBack                      // a server clock that steps back
	SurvivesFailover                       // to a replica
)

// Has says whether all events of want are survived.
func (s Survival) Has(want Survival) bool { return s&want == want }

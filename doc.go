// Package holdfast has distributed locks: one way to say "only one of us at a time" across machines, on whatever
// store a team already runs.
//
//	locks, err := holdfast.Open(ctx, "memory:") // or holdfast.New(store)
//	if err != nil {
//		return err
//	}
//	defer locks.Close()
//
//	err = locks.Mutex("inventory:42").Do(ctx, func(ctx context.Context) error {
//		// ctx ends the moment the lease is lost; TokenFrom(ctx) is the fencing token.
//		return sell(ctx)
//	})
//
// # One idea
//
// Claims on a resource stand in a line, in order of arrival. The longest prefix of the line that fits is held.
// The rest waits. A [Mutex] asks for everything, a reader of an [RWMutex] for one of many, a [Semaphore] for some
// of its units. So all are fair, a waiting writer stops later readers, and nobody starves.
//
// # Leases
//
// What is held is a [Lease]. It is renewed in the background until it is unlocked, and lost if that fails for
// its ttl: the process was cut off, or paused, or the store lost its data. Whoever holds one learns of the loss:
// its context ends, and its Err is ErrLost, strictly before the store can grant the lock to another. A holder
// that dies is no deadlock: its lock is free when the ttl has passed.
//
// Ownership is by handle, never by goroutine. There is no sync.Locker here, because Unlock could not report that
// the lock had been lost.
//
// # Owners
//
// What is locked under a lease's context has the same owner. Taking the same lock again there is ErrReentered, or
// with the option [WithReentrance] one more lease of it; a reader that wants to write gets ErrUpgrade either way. Owners
// that wait for each other in a circle are found, across processes, within about a second: one of them gets a
// [*DeadlockError]. [LockAll] takes many locks at once in an order in which that cannot happen. Inside a process a
// lock passes from goroutine to goroutine without a word to the store, for a bounded while: see [WithHandOver].
//
// # What no lock can promise
//
// A process can be paused between its last look at the lease and its write, for longer than any ttl. Then its
// write comes late, when another holds the lock. So each lease has a [Token], a number that rises with every
// exclusive holder. Hand it along with each write, and let the protected data refuse a smaller one than it has
// seen: package fence has guards for that.
//
// # Errors
//
// Every error of an operation is an [*Error] that names the operation, the lock and the store. Contention is
// ErrLocked, with a [*LockedError] that says who is in the way. A store that cannot be reached is never taken
// for contention. If a client cannot be sure that it holds, it does not hold.
//
// A call that waits rides out failures of the store that may pass, within its context. It returns one at once if that
// cannot mend by itself, such as a wrong password, and in any case when the store has answered nothing to this client
// for ten seconds after the call's first try has failed. Once a call stands in the store's line, its context alone
// ends the wait. TryLock says what is wrong at once.
package holdfast

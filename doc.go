// Package holdfast has distributed locks: mutexes, read-write locks, semaphores and elections between machines, on a
// store that a team already runs.
//
//	locks, err := holdfast.Open(ctx, "memory:") // or holdfast.New(store)
//	if err != nil {
//		return err
//	}
//	defer locks.Close()
//
//	err = locks.Mutex("inventory:42").Do(ctx, func(ctx context.Context) error {
//		// ctx ends the moment the lease is lost; TokenFrom(ctx) returns the fencing token.
//		return sell(ctx)
//	})
//
// # One idea
//
// Claims on a lock wait in a queue, in order of arrival. The longest prefix of the queue that fits is held. The rest
// waits. A [Mutex] demands all units, a reader of an [RWMutex] one of many, a holder of a [Semaphore] some. So all of
// them are fair, a waiting writer stops later readers, and no claim starves.
//
// # Leases
//
// A lock that is held is a [Lease]. It is renewed in the background until it is unlocked. It is lost if no renewal
// succeeds for its ttl: the process was cut off or paused, or the store lost its data. The holder is notified of the
// loss: the lease's context ends, and its Err is ErrLost, strictly before the store can grant the lock to another
// holder. A holder that dies does not block others for ever: its lock is free when the ttl has passed.
//
// A lock belongs to its lease, never to a goroutine. There is no sync.Locker here, because Unlock could not report that
// the lock was lost.
//
// # Owners
//
// Locks that are acquired under a lease's context have the same owner. If such a lock is the lease's own, the error is
// ErrReentered, or with the option [WithReentrance] the result is another lease of it; a reader that requests to write
// gets ErrUpgrade either way. If owners wait for each other in a cycle, this is detected, across processes, within
// about a second: one of them gets a [*DeadlockError]. [LockAll] acquires many locks at once in an order in which that
// cannot happen. Inside a process a lock is handed over from goroutine to goroutine without a call of the store, for a
// bounded time: see [WithHandOver].
//
// # What no lock can promise
//
// A process can be paused between its last check of the lease and its write, for longer than any ttl. Then its write
// arrives late, when another holder has the lock. So each lease has a [Token], a number that rises with every exclusive
// holder. Pass it along with each write, and let the protected data refuse a smaller token than it has seen: package
// fence has guards for that.
//
// # Errors
//
// Every error of an operation is an [*Error] with the operation, the lock and the store. Contention is ErrLocked, with
// a [*LockedError] that describes the holder. A failure of the store is a [*Fault], and never reported as contention.
// If a client cannot be sure that it holds a lock, it does not hold it.
//
// A call that waits retries after temporary failures of the store, within its context. It returns the failure at once
// if that cannot go away by itself, such as a wrong password, and in any case when the store has not responded to this
// client at all for ten seconds after the call's first try has failed. Once the call's claim is in the store's queue,
// only its context ends the wait. TryLock returns every failure at once. [Client.Ping] checks whether the store is fit
// for use.
package holdfast

// Package otelholdfast records what happens to locks as OpenTelemetry metrics and traces.
//
//	observer, err := otelholdfast.New()
//	if err != nil {
//		return err
//	}
//	locks, err := holdfast.Open(ctx, url, holdfast.WithObserver(observer))
//
// Without options it uses the global providers, also if they are set later. [WithMeterProvider] and
// [WithTracerProvider] set others. One Observer is enough for all clients of a process.
//
// # Metrics
//
//	instrument                 kind             unit        attributes           counts
//	holdfast.wait.duration     histogram        s           op, store, outcome   the wait for a lock
//	holdfast.hold.duration     histogram        s           op, store, outcome   how long a lock was held
//	holdfast.renewal.duration  histogram        s           store, outcome       duration of a renewal call
//	holdfast.renewals          counter          {claim}     store, outcome       claims of those calls
//	holdfast.jeopardies        counter          {jeopardy}  store                failed renewals of held leases
//	holdfast.losses            counter          {lease}     op, store            leases lost before Unlock
//	holdfast.deadlocks         counter          {deadlock}  op, store            waits ended by a deadlock
//	holdfast.handovers         counter          {handover}  op, store            locks handed over inside the process
//	holdfast.retries           counter          {call}      store                calls repeated after a rollback
//	holdfast.leases            up-down counter  {lease}     op, store            locks held now
//	holdfast.waiters           up-down counter  {waiter}    op, store            calls that request a lock now
//
// The attributes are holdfast.op (lock, trylock, rlock, ...), holdfast.store (its name and masked address) and
// holdfast.outcome:
//   - of a wait: granted; locked, if it was only a try; timeout; canceled; deadlock; closed; error. If the store is
//     known to be failing when the deadline passes, that is an error, not a timeout.
//   - of a hold: released, lost, closed. A lease that reached the end of its WithFixedTTL is lost.
//   - of a renewal: ok, error.
//
// Metrics do not have the lock's name: names often contain ids, and every different name would be a time series of its
// own, in each process. [WithNameAttribute] adds holdfast.name if there are few names, or maps many to few.
//
// # Traces
//
// A lock is two spans below the caller's span: holdfast.wait (of kind client) until it is acquired, and holdfast.hold
// (internal) until it is over, with a link to the wait. The lease's context has the span of the hold, so that spans
// made with that context are below it. Both have the attributes holdfast.name, holdfast.op, holdfast.store,
// holdfast.shared and holdfast.outcome. The hold also has holdfast.token, the fencing token in decimal, and an event
// holdfast.jeopardy for each renewal that failed. A wait that ended because the lock is held has holdfast.holder if the
// holder is known.
//
// The status is an error for a lost lease, and for a wait that failed or closed a deadlock. It is not an error if the
// lock is held by another holder, nor if a wait reached its deadline or was cancelled: the program has requested that.
//
// The observer is called while locks are acquired and released. Recording is quick. But with a span processor that
// exports at once, such as the SDK's simple one, locks would wait for the exporter: use one that batches.
package otelholdfast

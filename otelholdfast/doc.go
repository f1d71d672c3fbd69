// Package otelholdfast writes what happens to locks as OpenTelemetry metrics and traces.
//
//	observer, err := otelholdfast.New()
//	if err != nil {
//		return err
//	}
//	locks, err := holdfast.Open(ctx, url, holdfast.Observe(observer))
//
// Without options it uses the global providers, also if they are set later. [MeterProvider] and [TracerProvider]
// set others. One Observer is enough for all clients of a process.
//
// # Metrics
//
//	instrument                 kind             unit        attributes           counts
//	holdfast.wait.duration     histogram        s           op, store, outcome   how long a lock was waited for
//	holdfast.hold.duration     histogram        s           op, store, outcome   how long a lock was held
//	holdfast.renewal.duration  histogram        s           store, outcome       how long a call that renews took
//	holdfast.renewals          counter          {claim}     store, outcome       claims renewed by those calls, or not
//	holdfast.jeopardies        counter          {jeopardy}  store                renewals that failed while a lease lasted
//	holdfast.losses            counter          {lease}     op, store            leases that ended before they were given back
//	holdfast.deadlocks         counter          {deadlock}  op, store            waits given up because of a deadlock
//	holdfast.handovers         counter          {handover}  op, store            locks handed over inside the process
//	holdfast.retries           counter          {call}      store                calls that the server rolled back, repeated
//	holdfast.leases            up-down counter  {lease}     op, store            locks held now
//	holdfast.waiters           up-down counter  {waiter}    op, store            calls that ask for a lock now
//
// The attributes are holdfast.op (lock, trylock, rlock, ...), holdfast.store (its name and masked address) and
// holdfast.outcome:
//   - of a wait: granted; locked, if it was only tried; timeout; canceled; deadlock; closed; error. If the store
//     is known to be ill when the deadline passes, that is an error, not a timeout.
//   - of a hold: released, lost, closed. A lease that reached the end of its WithFixedTTL is lost.
//   - of a renewal: ok, error.
//
// Metrics do not have the lock's name: names are often made of ids, and every different one would be a time
// series of its own, in each process. [NameAttribute] adds holdfast.name where there are few, or makes few of
// many.
//
// # Traces
//
// A lock is two spans beneath the caller's: holdfast.wait (of kind client) until it is got, and holdfast.hold
// (internal) until it is over, with a link to the wait. The lease's context has the hold, so that what is done
// with that context hangs beneath it. Both have the attributes holdfast.name, holdfast.op, holdfast.store,
// holdfast.shared and holdfast.outcome. The hold also has holdfast.token, the fencing token in decimal, and an
// event holdfast.jeopardy for each renewal that failed. A wait that found the lock taken has holdfast.holder if
// the holder is known.
//
// The status is an error for a lost lease, and for a wait that failed or closed a deadlock. It is not for a lock
// that was taken, nor for a wait that reached its deadline or was given up: that is what the program asked for.
//
// The observer is called in the middle of things, some of them done while others wait. Recording is quick. But
// a span processor that exports at once, such as the SDK's simple one, would make locks wait for the exporter:
// use one that batches.
package otelholdfast

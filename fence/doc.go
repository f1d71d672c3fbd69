// Package fence guards what a lock protects against a late writer.
//
// No lock can stop a holder that does not know yet that it has lost its lease: a process that was paused for a minute
// continues with its next write when it wakes up, and that write may already be on its way. So every lease has a token,
// a number that rises with every exclusive holder, and the protected data itself refuses a write with a smaller token
// than it has seen. That is a fence.
//
// Two rules make it effective:
//   - Raise the fence on entry, before the first read. Otherwise a stale write can come between the read and the write
//     of the new holder.
//   - Check and write in one step. When a write follows a separate check, the result of the check may be out of date.
//
// A shared lease (a reader's, a semaphore's) has a token too. It is checked and never raises the fence, since several
// shared leases are held at the same time.
//
// # Which one
//
//   - The data is in this process: [Gate]. Enter before the first read, Do for the write.
//   - The data is in a SQL database: [Row], in the same database. Enter before the first read, Do for the write, or
//     all of it in one Do. Any database/sql driver will do; the [Dialect] says how statements are written.
//   - The data is in Redis: [Key], in the same Redis, on one server or in a cluster. Enter before the first read, Do
//     for the write, or all of it in one Do.
//   - The data is behind an HTTP service: [RoundTripper] in the client sends the token and [Middleware] in the
//     service checks it, with the service's Gate ([GateGuard]) or Row ([RowGuard]) as its guard.
//   - There is no lock, or a second protection is wanted: [Versioned], the optimistic update of a SQL row.
//   - The data is elsewhere: keep the token beside it as text ([Pad]), and compare and write in one step, with what
//     that system offers for it.
//
// A refusal is always holdfast.ErrStale, also across HTTP: a [StaleError] with both tokens or, from Versioned, a
// [VersionError] with both versions. Any other error says nothing about the token.
//
// A fence outlives its lock's store. When a store is replaced and the new one counts from a lower number, new holders
// are refused until an operator sets the fence with SetFloor.
package fence

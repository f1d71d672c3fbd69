// Package fence guards what a lock protects against a late writer.
//
// No lock can stop a holder that does not know yet that it has lost it: a process that was paused for a minute
// goes on with its next write the moment it wakes up, and that write may already be on its way. So every lease
// has a token, a number that rises with every exclusive holder, and the protected data itself refuses a write
// with a smaller token than it has seen. That is a fence.
//
// Two rules make it tight:
//   - Raise the fence on entry, before the first read. Otherwise a stale writer can slip in between the read and
//     the write of the new holder.
//   - Check and write in one step. A check that is followed by a write is a check of the past.
//
// A shared lease (a reader's, a semaphore's) has a token too. It is checked, and never raises the fence: readers
// do not come one after the other.
//
// # Which one
//
//   - The data is in this process: [Gate]. Enter before the first read, Do for the write.
//   - The data is in a SQL database: [Row], in the same database. Enter before the first read, Do for the write, or
//     all of it in one Do. Any database/sql driver will do; the [Dialect] says how statements are written.
//   - The data is in Redis: [Key], in the same Redis, on one server or in a cluster. Enter before the first read, Do for the
//     write, or all of it in one Do.
//   - The data is behind an HTTP service: [RoundTripper] in the client sends the token and [Middleware] in the
//     service checks it, with the service's Gate ([HoldGate]) or Row ([EnterRow]) as its guard.
//   - There is no lock, or a second belt is wanted: [Versioned], the optimistic update of a SQL row.
//   - The data is elsewhere: keep the token beside it as text ([Pad]), and compare and write in one step, with
//     whatever the place has for that.
//
// A refusal is always holdfast.ErrStale, also across HTTP: a [StaleError] with both tokens or, of Versioned, a
// [VersionError] with both versions. Any other error says nothing about the token.
//
// A fence outlives its lock's store. When a store is replaced and the new one counts from a lower number, new holders
// are refused until an operator sets the fence with SetFloor.
package fence

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
// [Gate] is the fence for data in this process. Fences for SQL rows, Redis keys and HTTP services come with the
// stores.
package fence

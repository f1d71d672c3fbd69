// Package sqlite keeps locks in a SQLite file, for the processes of one machine, without a server. Importing it
// registers the scheme sqlite:
//
//	locks, err := holdfast.Open(ctx, "sqlite:/var/lib/app/locks.db")
//
// In a URL the characters ?, #, % and @ of a path are written %3F, %23, %25 and %40. [Open] takes the path as it is.
//
// A missing file is created, readable and writable by its owner only. The file may have other tables too: the names of
// Holdfast's begin with holdfast_. The view holdfast_queues shows operators all holders and waiters.
//
// The store refuses a file that another user owns, or can replace or write, and a file in a folder that other users can
// write to, unless the folder is sticky, as /tmp is. It does not follow links that another user can have created. Users
// who share a file on purpose say so, with ?shared=yes ([WithShared]). On Windows none of this is checked.
//
// # How it works
//
// All calls of a client use one connection. A lock without contention is acquired by one statement and released by one.
// All other calls run in transactions, and calls that wait while one runs share the next. A transaction begins with the
// right to write (BEGIN IMMEDIATE), so it excludes all others. It removes expired claims, draws the ticket and
// evaluates the queue. The file is in write-ahead mode: a process can be killed at any moment without damage to the
// file.
//
// Time is the time since this machine was started. Every row counts from it, so that setting a clock moves no deadline.
// After the machine was started again all earlier holders are dead, and the file is emptied.
//
// A process that grants a claim of another process sends that process a datagram, to its socket in the folder
// PATH-wake. Where there are no such sockets, a client that waits checks at least every 50 ms whether the file has
// changed.
//
// The kernel closes the socket of a process that dies. So a claim of a process that was killed, or that ended without
// releasing it, is removed as soon as it blocks another claim, not only when its ttl has passed. A detached claim names
// no socket: it ends with no process, but when it expires.
//
// # What cannot be promised
//
// The file must be on a disk of this machine. SQLite's write-ahead mode does not work over a network file system, and
// two machines would not agree on the time. A file that another machine writes to is refused, once that is noticed. A
// second machine that opens the file takes its claims for those of an earlier start of its own, and empties it.
//
// Deleting or replacing the file (with its -wal and -shm) removes all locks. Holders learn of it at their next renewal,
// and another client can acquire the lock before that. Tokens still rise, because they follow the clock: a fence
// refuses the late writer.
//
// All processes must see the same file and folder. A container that sees them through an overlay of its own, beside a
// process that sees them directly, has other locks, and takes living clients for dead. Root must use another user's
// file as that user (sudo -u): the user cannot access the sockets of root, or a folder for sockets that root created.
//
// A process that is stopped in the middle of a transaction stops all others, until it continues or is killed: no claim
// can be acquired, renewed or released, and leases that cannot be renewed for their ttl are lost. A transaction takes
// some ten microseconds. A process that is stopped at any other moment stops no other, and keeps what it holds for the
// ttl. If the file has other tables too, a write transaction on them that takes longer than a ttl costs leases. A
// process must not open the file with a second SQLite library beside this one.
package sqlite

// Package sqlite keeps locks in a SQLite file, for the processes of one machine: nothing to install and nothing to
// run. Importing it registers the scheme sqlite:
//
//	locks, err := holdfast.Open(ctx, "sqlite:/var/lib/app/locks.db")
//
// In a URL ?, #, % and @ of a path are written %3F, %23, %25 and %40. [Open] takes the path as it is.
//
// The file is made if it is not there, readable and writable by its owner only. It can be a file that has other
// tables too: those of Holdfast begin with holdfast_, and the view holdfast_lines shows people who holds what.
//
// A file that another user owns, or can replace or write, is refused, and so is one in a folder that others can write
// to, unless the folder is sticky, as /tmp is. Links that another user can have put there are not followed. Users who
// share a file knowingly say so, with ?shared=yes ([Shared]). This is not looked at on Windows.
//
// # How it works
//
// All calls of a client go through one connection. A lock that nobody else wants is taken by one statement and given
// back by one. Everything else is done in transactions, and whatever waits while one runs shares the next. A transaction
// begins with the right to write (BEGIN IMMEDIATE), so that it has the file for itself; it removes what is out, draws the
// ticket and evaluates the line. The file is in write-ahead mode: a process can be killed at any moment and leaves a file
// that works.
//
// Time is the time since this machine was started, and every row counts from it, so that no clock that is set moves a
// deadline. When the machine was started anew, everybody who held is dead, and the file is emptied.
//
// Whoever grants a claim to another process tells exactly that process, with a datagram to its socket in the folder
// PATH-wake. Where sockets cannot be had, a client that waits looks whether the file has changed, at most 50 ms apart.
//
// The kernel closes the socket of a process that dies. So a claim of a process that was killed, or has ended without
// releasing it, is removed as soon as it is in another's way, and not only when its ttl has passed.
//
// # What cannot be promised
//
// The file must be on a disk of this machine. SQLite's write-ahead mode does not work over a network file system, and
// two machines would not agree on the time: a file that another machine writes to is refused, once that is noticed. A
// second machine that opens it takes it for its own, from before it was started, and empties it.
//
// Whoever deletes or replaces the file (with its -wal and -shm) takes all locks away. Holders learn it when they next
// renew, and somebody else can hold before that. Tokens still rise, because they follow the clock: a fence refuses the
// late writer.
//
// The file and its folder must be seen alike by all: a container that has them in an overlay of its own, beside one
// that sees them directly, has other locks, and takes living clients for dead. Root uses another user's file as that
// user (sudo -u): the sockets of root, or a folder for them that root made, are closed to the user.
//
// A process that is stopped in the middle of a transaction stops everybody, until it goes on or is killed: nobody can
// take, renew or release, and leases that cannot be renewed for their ttl are lost. A transaction takes some ten
// microseconds. A process that is stopped at any other moment stops nobody, and keeps what it holds for the ttl. If
// the file has other tables too, a write transaction on them that takes longer than a ttl costs leases. A process
// must not open the file with a second SQLite library beside this one.
package sqlite

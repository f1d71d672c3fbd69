// Package postgres keeps locks in a PostgreSQL database, version 13 or later. Importing it registers the schemes
// postgres and postgresql:
//
//	locks, err := holdfast.Open(ctx, "postgres://app@db.example.com/app?sslmode=verify-full")
//
// The URL is the one that psql takes, with several hosts where there are standbys. [New] and [NewPool] use a database
// or a pool that the program has already.
//
// # What it needs
//
// The tables and functions are in the schema holdfast. [Open] creates them if it may; otherwise the error says what to
// run: `holdfast schema postgres` prints it. After that the user needs USAGE on the schema; SELECT, INSERT, UPDATE and
// DELETE on holdfast.claims; SELECT, INSERT and DELETE on holdfast.tombstones; SELECT and UPDATE on holdfast.slots and
// holdfast.meta; and EXECUTE on the functions, where it was taken from PUBLIC. The view holdfast.lines shows people who
// holds what.
//
// # How it works
//
// Each operation is one call of a function of the database, and so one transaction and one round trip: to acquire, to
// release, to renew all leases of a client (see package routines). It is correct under every isolation level that the
// database may have as its default; READ COMMITTED is the one without retries. No statement is prepared for longer than
// its transaction, so that a pooler such as PgBouncer may stand between, in transaction mode too.
//
// To keep, to look and to leave read the front of a line: its holders and the first waiter. To join reads all of it, which
// is a matter of milliseconds with 10,000 waiters.
//
// A claim that waits and is granted is told so with NOTIFY on its client's own channel; nothing else is, except that it
// was broken. While claims of a client wait, the client listens with one connection beside the pool, and does not rely on
// it: it also looks twice a second. A client that only holds does not listen, and learns that a claim was broken from its
// next renewal. Through a pooler no client can listen. Then it looks every 2 to 100 ms, or listens at another URL:
// ?listen=postgres://…, [Listen].
//
// # Time
//
// Deadlines are counted by the clock of the server, read after the resource was locked. See docs/guarantees.md for what
// follows from a clock that is set, from a failover and from a restored backup.
package postgres

// Package postgres keeps locks in a PostgreSQL database, version 13 or later. Importing it registers the schemes
// postgres and postgresql:
//
//	locks, err := holdfast.Open(ctx, "postgres://app@db.example.com/app?sslmode=verify-full")
//
// The URL is the one that psql accepts, with several hosts where there are standbys. [New] and [NewPool] use a database
// or a pool that the program has opened.
//
// # Requirements
//
// The tables and functions are in the schema holdfast. [Open] creates them, or migrates those of an earlier version, if
// the user may. Otherwise the error says what an administrator has to run: `holdfast schema postgres` prints it. After
// that the user needs USAGE on the schema; SELECT, INSERT, UPDATE and DELETE on holdfast.claims; SELECT, INSERT and
// DELETE on holdfast.tombstones; SELECT and UPDATE on holdfast.slots and holdfast.meta; and EXECUTE on the functions,
// where it was revoked from PUBLIC ([Grants]). Programs of an earlier version refuse tables that were migrated. The
// view holdfast.queues shows operators all holders and waiters.
//
// # How it works
//
// Each operation is one call of a function of the database, and therefore one transaction and one round trip: to
// acquire, to release, to renew all leases of a client, to detach a claim or attach it (see package routines). It is
// correct at every isolation level that the database may have as its default; only READ COMMITTED needs no retries. No
// statement stays prepared after its transaction, so a pooler such as PgBouncer may be between, also in transaction
// mode.
//
// Keeping, polling and leaving read the front of a queue: its holders and the first waiter. Joining reads the whole
// queue, which takes milliseconds with 10,000 waiters.
//
// When a waiting claim is granted or broken, its client is notified with NOTIFY on a channel of its own. Nothing else
// is notified. While claims of a client wait, the client listens with one connection beside the pool. Since
// notifications can be lost, it also polls twice a second. A client that only holds does not listen, and learns from
// its next renewal that a claim was broken. Through a pooler no client can listen. Then it polls every 2 to 100 ms, or
// listens at another URL: ?listen=postgres://…, [WithListener].
//
// # Time
//
// Deadlines are counted by the clock of the server, read after the resource was locked. docs/guarantees.md says what
// follows from a clock that is set, from a failover and from a restored backup.
package postgres

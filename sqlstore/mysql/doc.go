// Package mysql keeps locks in a database of MariaDB 10.6 or later, or MySQL 8 or later (tested by hand on 9.7).
// Importing it registers the schemes mysql and mariadb:
//
//	locks, err := holdfast.Open(ctx, "mysql://app:password@db.example.com/app?tls=true")
//
// A URL may name several servers, of which the first writable one is used. Its parameters are tls (true, skip-verify,
// preferred or false; preferred is the default), ca, cert, key and server-name for TLS, password-file, and socket.
// [New] uses a database that the program has opened.
//
// # Requirements
//
// The names of the tables and procedures begin with holdfast_. [Open] creates them, or migrates those of an earlier
// version, if the user may. Otherwise the error says what an administrator has to run: `holdfast schema mysql` prints
// it, with the privileges to grant ([Grants]), which have to be granted again after a migration. Programs of an earlier
// version refuse tables that were migrated. The view holdfast_queues shows operators all holders and waiters. A binary
// log must have the format ROW or MIXED.
//
// A call that its client has abandoned still waits in the server for the row that it needs. Connections of [Open] have
// an innodb_lock_wait_timeout of 5 s. Those of a database that is passed to [New] should have one too: the default is
// 50 s.
//
// In a cluster with several writable nodes (Galera, Group Replication), all clients must use the same node at any time,
// through one address: the lock of a slot is not known to the other nodes. Do not name several of them in a URL.
//
// # How it works
//
// Each operation is one call of a procedure of the database, and therefore one transaction and one round trip: to
// acquire, to release, to renew all leases of a client, to detach a claim or attach it (see package routines). A
// connection prepares each call at its first use, which takes one more round trip. The isolation level is READ
// COMMITTED, whatever the default is. A call that the server rolled back after a deadlock or a lock wait timeout is
// repeated.
//
// The database cannot notify clients of a grant. While claims of a client wait, it polls all of them with one call,
// every 2 ms at first and every 100 ms later. A holder whose claim an operator broke learns of it from its next
// renewal.
//
// # Time
//
// Deadlines are counted by the clock of the server in UTC, read after the resource was locked. docs/guarantees.md says
// what follows from a clock that is set, from a failover and from a restored backup.
package mysql

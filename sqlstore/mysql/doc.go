// Package mysql keeps locks in a database of MariaDB 10.6 or later, or MySQL 8 or later (tried by hand on 9.7).
// Importing it registers the schemes mysql and mariadb:
//
//	locks, err := holdfast.Open(ctx, "mysql://app:password@db.example.com/app?tls=true")
//
// A URL may name several servers, of which the first is used that may be written to. Its parameters are tls (true,
// skip-verify, preferred or false; preferred is the default), ca, cert, key and server-name for TLS, password-file, and
// socket. [New] uses a database that the program has already.
//
// # What it needs
//
// The names of the tables and procedures begin with holdfast_. [Open] creates them if it may; otherwise the error says
// what to run: `holdfast schema mysql` prints it, and what to grant after it ([Grants]). The view holdfast_lines shows
// people who holds what. A binary log has to be in the format ROW or MIXED.
//
// A call that its client has given up waits on in the server for the row that it wants. Connections of [Open] have an
// innodb_lock_wait_timeout of 5 s. Those of a database that [New] is given should have one too: the default is 50 s.
//
// In a cluster of which several nodes can be written to (Galera, Group Replication), all clients have to use the same
// node at any time, through one address: the lock of a slot is not known to the other nodes. Do not name several of
// them in a URL.
//
// # How it works
//
// Each operation is one call of a procedure of the database, and so one transaction and one round trip: to acquire, to
// release, to renew all leases of a client (see package routines). A connection prepares each call when it first makes
// it, which is one more. The isolation is READ COMMITTED, whatever the default is. A call that the server rolled back
// after a deadlock or a lock wait timeout is made again.
//
// The database tells nobody of a grant. While claims of a client wait, it reads where they stand, all of them with one
// call, every 2 ms at first and every 100 ms later. A holder whose claim was broken by hand learns of it from its next
// renewal.
//
// # Time
//
// Deadlines are counted by the clock of the server, read after the resource was locked, in UTC. See docs/guarantees.md
// for what follows from a clock that is set, from a failover and from a restored backup.
package mysql

// Package sqlstore keeps locks in SQL databases. It has what all of them share: how a client handles results, pushes
// and time. Each database is an [Engine] in a package of its own, so that a program links only the driver that it uses:
//
//   - sqlstore/sqlite, for the processes of one machine, without a server: sqlite:PATH
//   - sqlstore/postgres: postgres://HOST/DATABASE
//   - sqlstore/mysql, for MySQL and MariaDB: mysql://HOST/DATABASE
//
// An engine performs each operation in one transaction that excludes all others for the resource: it removes expired
// claims, draws the ticket and evaluates the queue. Nothing runs by itself inside a database. So the status of a
// waiting claim has the time at which something ahead of it can expire, and its client checks again then.
package sqlstore

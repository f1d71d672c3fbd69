// Package sqlstore keeps locks in SQL databases. It is the half that all of them share: what a client does with
// answers, pushes and time. Each database is an [Engine] in a package of its own, so that a program brings along
// only the driver that it uses:
//
//   - sqlstore/sqlite, for one machine and nothing installed: sqlite:PATH
//
// An engine does each operation in one transaction that has the resource for itself: it removes what is out,
// draws the ticket, and evaluates the line. Nothing runs by itself inside a database, so waiters are told when
// what stands ahead of them can run out, and ask then.
package sqlstore

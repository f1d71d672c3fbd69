// Package routines is the engine of SQL databases that are servers. Each operation of the contract is one call of a
// routine that is kept in the database, and so one transaction and one round trip: no lock of the database is ever held
// while a message is on its way. PostgreSQL and MySQL differ in the text of the routines, in the calls, and in what their
// errors mean; the rest is here.
//
// # What the routines do
//
// A resource belongs to one of [Slots] rows by a hash of its name. A routine first updates that row, which serialises all
// that happens to the resource, and draws the ticket. Then it reads the clock, removes what has expired, and evaluates
// the line. Tickets rise for each slot, and so for each resource, and nothing is kept for a name that is not in use.
package routines

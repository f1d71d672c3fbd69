// Package routines is the engine of SQL databases that are servers. Each operation of the contract is one call of a
// routine that is kept in the database, and so one transaction and one round trip. No lock of a resource waits for a
// client: the server commits when it has written the rows of the answer, as PostgreSQL does, or before. Those of up to
// 512 claims, which are as many as a client keeps with one call, fit into the buffer of a socket. PostgreSQL and MySQL
// differ in the text of the routines, in the calls, and in what their errors mean; the rest is here.
//
// # What the routines do
//
// A resource belongs to one of [Slots] rows by a hash of its name. A routine first updates that row, which serialises all
// that happens to the resource, and draws the ticket. Then it reads the clock, removes what has expired, and evaluates
// the line. Tickets rise for each slot, and so for each resource, and nothing is kept for a name that is not in use.
package routines

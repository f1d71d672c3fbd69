// Package routines is the engine of SQL databases that are servers. Each operation of the contract is one call of a
// routine stored in the database, and therefore one transaction and one round trip. Locks of the database are never
// held while the server waits for a client: the server commits before it writes the rows of the result, or, as
// PostgreSQL does, right after it. The rows of 512 claims, the most that a client keeps with one call, fit into the
// buffer of a socket. PostgreSQL and MySQL differ in the text of the routines, in the calls and in the meaning of
// errors. Everything else is here.
//
// # What the routines do
//
// A resource belongs to one of [Slots] rows, by a hash of its name. A routine first locks or updates that row, which
// serialises all calls for the resource, and draws the ticket. Then it reads the clock, removes expired claims and
// evaluates the queue. Tickets rise for each slot, and so for each resource. Nothing is kept for a name that is not in
// use.
package routines

// Package memstore keeps locks in the memory of one process. It is exact: nothing is lost, time is the process's clock,
// and the next claims that fit are granted at once.
//
// It has two uses.
//
// For programs of one process it is a lock with fairness, contexts, expiry and tokens:
//
//	locks := holdfast.New(memstore.New())
//
// For unit tests it stands in for the store that production uses. A [Server] stands for the server, and each
// [Server.Connect] for the connection of one process, so that a test can act as several processes:
//
//	server := memstore.NewServer()
//	a := holdfast.New(server.Connect())
//	b := holdfast.New(server.Connect())
//
// Inside a testing/synctest bubble its time is the bubble's: a test sleeps for an hour in no time. Faults happen when
// the test says so, and the examples show each:
//
//   - [Server.Revoke] takes a lock away from its holder.
//   - [Store.Disconnect] cuts one client off, and [Store.Reconnect] ends that.
//   - [Store.SetDelay] makes its messages slow.
//   - [Server.Restart] restarts the server, with its data or without.
//
// Tickets begin with the clock, in microseconds, so that a fence outside of the process accepts the tokens of the next
// run after those of an earlier one.
//
// The URL memory: opens a store with a server of its own, and memory:NAME one that is shared by all in this process
// that open the same name.
package memstore

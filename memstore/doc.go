// Package memstore keeps locks in the memory of one process. It is exact: nothing gets lost, time is this
// process's clock, and whoever fits is told at once.
//
// It has two uses.
//
// For programs of one process it is a lock with fairness, contexts, expiry and tokens:
//
//	locks := holdfast.New(memstore.New())
//
// For unit tests it is the double of the store that production uses. A [Server] stands for the server, and each
// [Server.Connect] for one process's connection to it, so that a test can play several processes:
//
//	server := memstore.NewServer()
//	a := holdfast.New(server.Connect())
//	b := holdfast.New(server.Connect())
//
// Inside a testing/synctest bubble its time is the bubble's: a test sleeps for an hour in no time. A lease gets
// lost when the test says so, by [Server.Restart] without data or by [Server.Erase]. The examples show both.
//
// Tickets begin with the clock, in microseconds, so that a fence outside of the process that has seen the tokens
// of an earlier run lets those of the next one pass.
//
// By URL it is memory: for a store of one's own, and memory:NAME for one that all in this process share who open
// the same name.
package memstore

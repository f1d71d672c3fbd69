// Package storetest is the suite that every store must pass. It shows that a store obeys the rules in the
// documentation of package store. It needs nothing but the standard library and package store, so that a store
// in any module can use it.
//
// # A store's test
//
// It is one line and a harness:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, newHarness)
//	}
//
// [Run] is for real servers and real time. [RunFake] is for stores that live in this process: each case runs in a
// bubble of testing/synctest, where time passes as soon as everyone waits for it. One case alone is run as
//
//	go test -run 'TestStore/identity/a_stranger_leaves'
//
// Cases that need what the store does not have, by its own [store.Abilities], are skipped. So are cases that need
// what its harness cannot do.
//
// # A harness
//
// A [Harness] is a server with a hand on its switches: it opens clients, lets time pass, restarts the server, and
// looks into it behind the store's back. Each client comes with a [Link], which does to its messages what a network
// does: it delays, loses and breaks. For a server elsewhere the link is a proxy. For a store in this process it is a
// [Pipe].
//
// Two promises of a harness matter most. Residue counts everything that the store keeps for a name, or else the
// cases about leaks show nothing. And Kill is silent: a client that says goodbye has not died.
//
// # A failure
//
// It begins with the rule, goes on with the lines of the case and of the check, and ends with what happened:
//
//	rule 6, identity: Leave and Keep touch only the claim with that ID, and Keep never gives it more units than it has.
//	identity.go:29: Keep of "4fa…/stranger" (1048576 of 1048576): gone, want held
//
// The case's function is short and is a schedule: read it from the top, and ask at each line what the store has
// done by then. Its comment says which mistake the schedule is made for. A case that hangs ends the process after
// a while, with its name and the stack of every goroutine.
//
// What a store promises it promises on a machine that runs. So in real time a case that fails while this machine stood still, or
// one of the servers as far as its harness can tell (see [Restless]), is played again. That is logged, and the third verdict
// counts whatever happened.
//
// Rule 0 stands for what the comments of [store.Store] say beside the numbered rules.
//
// # Trust
//
// A check that cannot fail is a defect. The suite's own tests run it against stores that are broken on purpose, in
// the ways in which real ones were: a Leave that deletes whatever is there, an Until counted from the answer, names
// that lose their case. Each is caught by its own rule, each case catches at least one, and a store that is not
// broken passes. Whoever adds a case adds its broken store.
package storetest

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
// [Run] is for real servers and real time. [RunFake] is for stores inside this process: each case runs in a bubble of
// testing/synctest, where time passes as soon as all goroutines wait for it. One case alone is run as
//
//	go test -run 'TestStore/identity/a_stranger_leaves'
//
// Cases that need what the store does not have, by its own [store.Abilities], are skipped. So are cases that need
// what its harness cannot do.
//
// # A harness
//
// A [Harness] controls a server: it opens clients, lets time pass, restarts the server, and inspects its data without
// using the store. Each client comes with a [Link], which does to its messages what a network does: it delays and loses
// them, and breaks the connection. For a separate server the link is a proxy. For a store in this process it is a
// [Pipe].
//
// Two promises of a harness matter most. Residue counts everything that the store keeps for a name; otherwise the cases
// about leaks prove nothing. And Kill is silent: the server receives nothing that a crashed client would not have sent.
//
// # A failure
//
// It begins with the rule, continues with the source lines of the case and of the check, and ends with what happened:
//
//	rule 6, identity: Leave and Keep touch only the claim with that ID, and Keep never increases its units.
//	identity.go:29: Keep of "4fa…/stranger" (1048576 of 1048576): gone, want held
//
// The case's function is a short schedule: read it from the top, and consider at each line what the store has done by
// then. Its comment states which bug the schedule provokes. A case that hangs ends the process after a while, with its
// name and the stack of every goroutine.
//
// The promises of a store assume a machine that runs. In real time, a case is therefore repeated if it failed while
// this machine was stalled, or while the server was, which the suite detects by reading from it all the time. The
// repetition is logged. The eighth verdict counts in any case.
//
// Rule 0 is what the comments of [store.Store] require beyond the numbered rules.
//
// # Trust
//
// A check that cannot fail is a defect. The suite's own tests run it against stores that are broken on purpose, in the
// ways in which real ones were: a Leave that deletes whatever is there, an Until computed from when the response
// arrived, names that lose their case. Each is caught by its own rule, each case catches at least one, and a store that
// is not broken passes. A new case comes with its broken store.
package storetest

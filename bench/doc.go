// Bench measures Holdfast beside other locks, on the same server, in the same run.
//
//	go -C bench run . --quick
//
// # How it measures
//
// A measurement is one contestant under one workload (workloads.go), in processes of its own: this program starts
// itself again as a worker (worker.go). All workers begin at one instant of a clock that they share, and write down
// when they asked, got, and gave back. Those records come to the parent, which alone computes (stats.go).
//
// Rounds go over all contestants, each time beginning with another. So what else happens on the machine meets all of
// them. What is reported is the median over the rounds; a ratio is the median of the ratios within each round. What
// must never happen (two holders at once, a token that does not rise, an error) is not a median but a sum.
//
// # What a number means
//
// A wait that the end of the measurement cut off counts with as long as it lasted. Without that, a lock that lets some
// workers starve would look quick: those who starve would not be seen. Even so, a worker that takes the lock a thousand
// times in a row outweighs seven that get nothing. So waits are also given "alike": each worker counts the same,
// however often it was served.
//
// # Adding to it
//
// A store of Holdfast's is one line in contestants.go. A peer is a locker (locker.go) and a line. A kind of server is a
// site (site.go). README.md says how each peer is set up and why.
package main

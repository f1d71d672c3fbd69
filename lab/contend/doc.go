// Package contend lets real processes contend for locks while somebody breaks things, and tells what came of it. It
// knows no store: a process has a URL.
//
//	func init() { contend.Child() } // in a test file: the test binary is also the program of the processes
//
//	crowd, err := contend.Start(contend.Plan{Dir: dir, URLs: urls, Goroutines: 16})
//	err = crowd.Through(ctx) // everyone has got a lock
//	server.Kill()
//	server.Start()
//	err = crowd.Through(ctx) // and everyone has got one again
//	outcome, err := crowd.Stop(ctx)
//	findings := outcome.Findings()
//
// # What a process does
//
// It opens a client and has some goroutines take locks: a few mutexes, a read-write lock and a semaphore, at random.
// Each holds for some milliseconds, and some for longer if the plan says so, asks its lease all the while whether it
// still believes, and writes that down with package history. An error of the store is counted, and the goroutine tries
// again. Nobody gives up waiting: a waiter who is forgotten stays forgotten, and Through tells.
//
// # A crowd that comes at once
//
// [Rush] and [Once] let goroutines of one client, or processes, take a lock once, all at the same moment, and return
// what went wrong. [Stampede] is both as a test that every store passes.
//
// # How it ends
//
// A process ends when its input does. So it ends with the process that started it, however that one ends, and within
// a bound: it kills itself if giving back takes too long, and in any case after an hour.
package contend

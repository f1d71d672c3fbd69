// Package contend lets processes contend for locks while a test causes faults, and returns what happened. It works with
// every store: a process gets a URL.
//
//	func init() { contend.Child() } // in a test file: the test binary is also the program of the processes
//
//	crowd, err := contend.Start(contend.Plan{Dir: dir, URLs: urls, Goroutines: 16})
//	err = crowd.Through(ctx) // every goroutine has acquired a lock
//	server.Kill()
//	server.Start()
//	err = crowd.Through(ctx) // and every goroutine has acquired one again
//	outcome, err := crowd.Stop(ctx)
//	findings := outcome.Findings()
//
// # What a process does
//
// It opens a client and has some goroutines take locks: a few mutexes, a read-write lock and a semaphore, at random.
// Each holds for some milliseconds, and some for longer if the plan says so. Meanwhile it checks its lease and records
// the belief with package history. Errors of the store are counted, and the goroutine retries. No goroutine gives up
// waiting: if a waiter is forgotten, it stays so, and Through reports it.
//
// # A crowd that arrives at once
//
// [Rush] and [Once] let goroutines of one client, or processes, take a lock once, all at the same moment, and return
// what went wrong. [Stampede] is both as a test that every store passes.
//
// # How it ends
//
// A process ends when its input does. So it ends with the process that started it, however that one ends, and within a
// bound: it kills itself if the release of its locks takes too long, and in any case after an hour.
package contend

// Package demo implements `holdfast demo`. Several processes sell one stock in three rounds: without a lock, with a
// naive one, and with Holdfast and a fence. In each round one process is killed in the middle of a sale, and one is
// stopped there until the others have overtaken it. Nothing is left to chance: in the middle of each sale a process
// waits for the coordinator, which continues, stops or kills it.
//
//   - plan.go: the three rounds, and the store of Holdfast's locks
//   - round.go, fate.go: one round in the coordinator; which worker is killed and which is stopped
//   - process.go: a worker process in the coordinator, and the messages between them
//   - worker.go: the worker process
//   - lock.go, naive.go: the lock of a worker
//   - stock.go: the stock, and its fence
//   - account.go, clock_*.go: the result of a round, and whether it showed what it should
//   - screen.go, table.go, terminal*.go: the output
package demo

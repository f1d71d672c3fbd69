// Package demo is the sale behind `holdfast demo`. Several processes sell one stock in three rounds: without a
// lock, with a naive one, and with Holdfast and a fence. In each round one process is killed in the middle of a
// sale, and one is stopped there until the others have overtaken it. Nothing is left to luck: a process in the
// middle of a sale waits for a word from the coordinator, who stops or kills it before he gives it.
//
//   - plan.go: the three rounds, one after the other, and the store that Holdfast keeps its locks in
//   - round.go, fate.go: one round, as the coordinator runs it; who is killed and who is stopped
//   - process.go: a worker process, as the coordinator sees it, and what the two say to each other
//   - worker.go: what a worker process does
//   - lock.go, naive.go: what a worker takes before it sells
//   - stock.go: what is sold, and its fence
//   - account.go, clock_*.go: what a round came to, whether it showed what it is for, and when things happened
//   - screen.go, table.go, terminal*.go: what people see
package demo

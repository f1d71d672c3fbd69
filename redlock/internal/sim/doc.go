// Package sim runs Redlock in a world of its own: nodes, clients, clocks and messages, all in one thread and all from
// one seed. It drives the decisions of package vote, the same that production runs.
//
// A schedule is generated from one seed: how many nodes and clients there are, what each client does, how long messages
// take, which are lost, which processes crash and when. Run executes it and reports violations. For some time there are
// faults; then they stop, and all waiting clients must acquire the lock.
//
// What is checked:
//   - Overlap: no two claims are held at one time, as their holders believe by their own clocks.
//   - Order: every grant has a higher ticket than all before it, and no claim is kept when a later one was granted.
//   - Wait: when faults have stopped, every client gets all the locks that it wants.
//   - Residue: a key of a try that is over does not stay while nobody works on it, and in the end nothing is left.
//
// The assumptions of package vote hold in every schedule, but for the order of tickets in those that lose the data of a
// majority at once, where it is not checked.
package sim

// Package knot finds deadlocks: it looks whether a waiting claim waits in a knot, a set of owners none of which
// can go on before another of them does. It is pure but for the lines that it reads.
//
// A cycle of owners is not enough. A semaphore's waiter needs only some of those ahead to leave, and an owner may
// wait in several goroutines. So it is decided in three steps:
//
//  1. Gather. From the claim's line on, read the lines in which anyone waits who stands in the way. What an
//     owner has written of its waits only says where to look. What stands in the lines is what counts.
//  2. Reduce. An owner that waits for nothing will leave all its claims some day. Take them out, see whose claims
//     would then be granted, take all claims of those out too, and so on. One granted wait is enough: the
//     goroutine that goes on may release anything. Who is left is stuck.
//  3. Tie. Among the stuck keep those who block the claim's owner and are blocked by it, over however many
//     others. Then take everyone else out and reduce again: who can go on once a knot elsewhere is untied only
//     waits behind that knot, which is for its members to untie.
//
// Every member finds the same knot, names the same victim and writes the same cycle, if all read the same lines.
// Lines are read at different moments, so one walk shows nothing that ever was true as a whole. Two equal ones
// ([Knot.Equal]) do: a claim that waits in both has waited all the time between, a claim that is held in both was
// held all the time, and nobody gets ahead of a claim that stands.
//
// Even then a knot is likely and not certain: another goroutine of an owner may still unlock what it holds.
package knot

// Package knot finds deadlocks. It determines whether a waiting claim is in a knot: a set of owners of which none can
// continue before another of them does. It is pure except that it reads queues.
//
// A cycle of owners is not enough. A waiter of a semaphore needs only some of the claims ahead of it to leave, and an
// owner may wait in several goroutines. So the search has three steps:
//
//  1. Gather. Beginning with the claim's queue, read the queues in which the owners of blocking claims wait. The waits
//     that an owner has published only say which queues to read. What counts is the claims in the queues.
//  2. Reduce. An owner that waits for nothing will some day release all its claims. Remove them, find the claims that
//     would then be granted, remove all claims of their owners too, and so on. One granted wait is enough: the
//     goroutine that continues may release anything. The owners that remain are stuck.
//  3. Tie. Of the stuck owners keep those that block the claim's owner and are blocked by it, directly or through
//     others. Then remove all other owners and reduce again: an owner that can continue once a knot elsewhere is
//     resolved only waits behind that knot, which its own members must resolve.
//
// If all members read the same queues, each of them finds the same knot, chooses the same victim and reports the same
// cycle. Queues are read at different moments, so the result of one walk may never have been true as a whole. Two equal
// results ([Knot.Equal]) are: a claim that waits in both has waited all the time between, a claim that is held in both
// was held all the time, and no claim gets ahead of one that is in the queue.
//
// Even then a knot is likely and not certain: another goroutine of an owner may still unlock a lock that the owner
// holds.
package knot

// Package vote makes the decisions of Redlock: how a node answers, and what a client concludes from the answers of a
// majority. It has no I/O, no clock, no goroutine and no randomness of its own: all of that is passed in. So package
// redlock, which has connections, and package sim, which has a seed, drive the same decisions.
//
// # The types
//
// A [Node] is the specification of the scripts that run at each Redis. [Node.Do] takes a [Request] and returns an
// [Answer].
//
// A [Claim] is one claim of one client, from its first try to its last release. Its driver calls [Claim.Try],
// [Claim.Keep] and [Claim.Leave] for the program, [Claim.Answer] when a node has answered or failed, [Claim.Push] when
// a node has published that the key is free, and [Claim.Wake] at the time that the claim requested. Each returns a
// [Step]: what to send, the result of the call if there is one, and when to wake the claim. A claim has no lock: it
// takes one step at a time. The driver keeps it, and passes answers to it, until [Claim.Finished].
//
// An [Admitter] gives nodes their vote back. A client has one, and passes every answer of every node to it.
//
// Times of a client are durations since any fixed moment, by its monotonic clock. Times of a node are since 1970, by
// the node's own clock.
//
// # What a node does
//
// A lock is one key with a value and an expiry, as in the published algorithm. Beside the locks there is one record:
// the run id of the server that wrote it, the deployment's max-ttl, the mark (the highest ticket known there), and
// whether the node votes. Every script reads the record first.
//   - If there is no record, or one of another run, data may be lost. The node has no vote from now on. That is its
//     quarantine. The exception is a restart that an operator declared as one that keeps all data.
//   - A quarantine is over after max-ttl by the node's clock. Then the node must still receive the highest mark of a
//     majority of nodes that vote.
//   - A node without a vote grants nothing and accepts no ticket. It keeps and repairs keys, and answers that it has no
//     vote.
//   - A client with another max-ttl is refused.
//
// # What a client does
//
//   - Take: it sends to all nodes at once. With a majority it continues. When a majority has become impossible it
//     releases at all nodes, including those where the take seems to have failed. Each try has a value of its own, so
//     that a late release ends no later try. A claim that has lost before sends to one node first, see probe.go.
//   - Ticket: one is proposed with the take, a [Guess]. A node accepts it with the key if it is above its mark, which
//     is then raised to it. A majority must accept. Otherwise, when a majority has granted, the claim proposes another
//     one above all marks that these nodes named. That Raise is accepted only where the claim has its key and the node
//     votes.
//   - Hold: until the time at which the take was sent, plus ttl, less drift. That is checked again when the ticket is
//     drawn.
//   - Keep: it sends to all nodes. Those count that have the key, or set it again, and vote. A majority must count
//     before the old time is over. A claim that has expired never comes back.
//   - Leave: it is repeated until it is acknowledged or nothing can be left. If the answer to the take is due at a
//     node, the release is sent there when the answer has arrived. If a take or keep had no answer in time, the release
//     leaves a tombstone, and is repeated if the answer arrives after all.
//
// # Why no two claims hold at the same time
//
// A and B both hold only if some node counts for both, since two majorities intersect. Say that it granted to A first.
// It granted to B when A's key was not there. Either A had released it, and no longer believed that it held. Or the key
// had expired, and A's time, which is counted from before the node's and shortened by the drift, was over before. Or
// the node had lost the key. But then it had no vote for max-ttl, and all that A believed because of that node was over
// when it voted again. What A has kept since then it kept by other nodes, and the same is true of them.
//
// A repair needs no rule of its own. If a node with a vote sets a key again, the key was not there, so the node grants
// as with a take. If a node without a vote sets a key again, that does not count until the node votes. That is max-ttl
// after the loss at the earliest, and all that other claims believed because of that node is over by then.
//
// # Why tickets rise
//
// Say that A was granted, and B after it. A's ticket was accepted by a majority that had A's key, and a majority
// granted to B. They intersect in a node. There A's key came before B's: if B's had come first, B would have been over
// before A was granted. And A's ticket came while A's key was there, so before B's take, which met a mark at least as
// high. If B's ticket came with its takes, let the second majority be the nodes that accepted it: this node did, so B's
// ticket is above A's. If it came later, B proposed above the mark that this node named.
//
// If the node lost its mark in between, it has received one since. That mark was collected after max-ttl, when A's
// ticket was known to a majority if it ever was. Among the nodes that vote, the number without A's ticket does not
// grow: a node that gets its vote back also gets the ticket, from a majority of nodes that vote, one of which has it.
// So any majority of them names it.
//
// Claims do not compete for marks: claims on other names raise them too, and nothing is refused for that.
//
// # Assumptions
//
//  1. Any two clocks differ in pace by less than the drift, over a max-ttl, and none jumps.
//  2. A node that lost data was restarted, or lost its record too. So it must not evict, and no client deletes single
//     keys. What an operator declares with Init or Trust is true: Init is not for a node of a deployment in use that
//     came back empty. The run that is passed to a script is that of the server that runs it: a connection leads to one
//     server from its beginning to its end, without a proxy that continues with another.
//  3. All clients use this package, with the same nodes and max-ttl. (Another max-ttl is refused where there is a
//     record; the client that writes the first record after a loss is not known to be right.) A value is never used
//     twice.
//  4. For tickets: there is never a majority of nodes without a vote at one time. If there is, tickets still rise if
//     the clocks of the nodes agree to less than half of the time since the marks began: see [Guess].
//
// Nothing is assumed about messages: they may be late by any time, lost, duplicated and reordered. Nor about clients:
// they may be paused and die. The number of nodes that are down, or lose their data, affects which claims are granted,
// and tickets as described, but not exclusion.
//
// Nodes get votes back only while a majority votes, or when a majority has completed its quarantine. So if as many
// nodes as may fail are down, and one more loses its data, nothing is granted until one of those is back with its vote,
// or until all of them, or new servers in their place, are back and max-ttl has passed. Less would not be safe: a node
// that does not respond may be the only voting node that has the last ticket.
//
// Not covered: an operator who breaks a lock takes it from a holder that learns of it at its next keep; until then two
// claims may hold, and a fence distinguishes them. If a clock jumps ahead, two claims may hold too; if it is set back,
// keys only live longer. A holder that is paused between reading the clock and writing writes late; only a fence
// refuses that.
package vote

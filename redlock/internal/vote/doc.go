// Package vote is how Redlock decides: what a node answers, and what a client makes of the answers of a majority. It
// has no I/O, no clock, no goroutine and no chance of its own: all of that is passed in. So package redlock, which has
// connections, and package sim, which has a seed, drive the same decisions.
//
// # Who is who
//
// A [Node] is the specification of the scripts that run at each Redis. [Node.Do] takes a [Request] and gives an
// [Answer].
//
// A [Claim] is one claim of one client, from its first try to its last release. Whoever drives it calls [Claim.Try],
// [Claim.Keep] and [Claim.Leave] for the program, [Claim.Answer] when a node has answered or failed, [Claim.Push] when
// a node told that the key is free, and [Claim.Wake] when the time has come for which it asked. Each returns a [Step]:
// what to send, the result of the call if there is one, when to wake it. A claim has no lock: one step at a time. It is
// kept, and given answers, until [Claim.Finished].
//
// An [Admitter] gives nodes back their vote. A client has one, and shows it every answer of every node.
//
// Times of a client are durations since any fixed moment, by its monotonic clock. Times of a node are since 1970, by
// the node's own clock.
//
// # What a node does
//
// A lock is one key with a value and an end, as in the published algorithm. Beside the locks there is one record: the
// run id of the server that wrote it, the deployment's max-ttl, the mark (the highest ticket known there), and whether
// the node votes. Every script looks at the record first.
//   - No record, or one of another run: data may be lost. The node has no vote from now on. That is its quarantine.
//     The exception is a restart that an operator declared as one that keeps all data.
//   - A quarantine is served after max-ttl by the node's clock. Then the node must still be given the highest mark of a
//     majority of nodes that vote.
//   - A node without a vote grants nothing and draws nothing. It keeps and repairs keys, and says that it has no vote.
//   - A client with another max-ttl is refused.
//
// # What a client does
//
//   - Take: all nodes at once. With a majority it goes on; without hope of one it gives back everywhere, also where it
//     seems to have failed. Each try has a value of its own, so that a late release ends no later try. Who has lost before
//     asks one node first, see probe.go.
//   - The ticket: one is proposed along with the take, a [Guess]. A node accepts it with the key if it is above its mark,
//     which it then is. A majority must accept. If it does not, the claim proposes another one when a majority has
//     granted: above all marks that these named. That Raise is accepted only where the claim has its key and the node votes.
//   - Hold: until the take was sent, plus ttl, less drift; looked at again when the ticket is drawn.
//   - Keep: all nodes. Those count that have the key, or set it again, and vote. A majority must count before the old
//     time is over. A claim that has run out never comes back.
//   - Leave: repeated until it is acknowledged or nothing can be left. A node whose answer to the take is just due is asked
//     when that has come. Where a take or keep was not answered in time it leaves a tombstone, and is repeated if that is
//     answered after all.
//
// # Why no two hold at one time
//
// A and B both hold only if some node counts for both, since two majorities meet. Say that it let A in first. It let B in
// when A's key was not there. Either A had given it back, and believed no more. Or it had run out, and A's time, which is
// counted from before the node's and shortened by the drift, was over before. Or the node had lost it. But then it had no
// vote for max-ttl, and all that A believed because of that node was over when it voted again. What A has since kept it
// kept by other nodes, and the same is true of them.
//
// A repair needs no rule of its own. A key that a node with a vote sets again was not there, so the node lets the claim in as
// with a take. A key that a node without a vote sets again does not count until the node votes. That is max-ttl after the
// loss at the earliest, and all that others believed because of that node is over by then.
//
// # Why tickets rise
//
// Say that A was granted, and B after it. A's ticket was accepted by a majority that had A's key, and a majority let B in.
// They meet in a node. There A's key came before B's: if B's had come first, B would have been over before A was
// granted. And A's ticket came while A's key was there, so before B's take, which met a mark at least as high. If B's
// ticket came with its takes, take for the second majority the nodes that accepted it: this one did, so B's is above A's.
// If it came later, B proposed above the mark that this node named.
//
// If the node lost its mark in between, it has been given one since. It was asked for after max-ttl, when A's ticket
// was with a majority if it ever was. Of the nodes that vote, those without A's ticket become no more: a node that gets
// its vote gets the ticket too, from a majority of nodes that vote, of which one has it. So any majority of them names
// it.
//
// Nobody competes for marks: claims on other names raise them too, and nothing is refused for that.
//
// # What is assumed
//
//  1. Any two clocks differ in pace by less than the drift, over a max-ttl, and none jumps.
//  2. A node that lost data restarted, or lost its record too. So it must not evict, and nobody deletes single keys. What
//     an operator declares with Init or Trust is true: Init is not for a node of a deployment in use that came back empty.
//     The run that a script is told is that of the server it runs at: a connection leads to one server from its beginning
//     to its end, without a proxy that goes on with another.
//  3. All clients are of this package, with the same nodes and max-ttl. (Another max-ttl is refused where there is a record;
//     who writes the first record after a loss is not known to be right.) A value is never used twice.
//  4. For tickets: there is never a majority of nodes without a vote at one time. If there is, tickets still rise if the
//     nodes' clocks agree to less than half of the time since the marks began: see [Guess].
//
// Nothing is assumed of messages: they may be late by any time, lost, doubled and out of order. Nor of clients: they may be
// paused and die. How many nodes are down, or lose their data, matters to who gets in, and to the tickets as said, but not
// to exclusion.
//
// Votes come back only while a majority votes, or when a majority has served. So if as many nodes as may fail are down, and
// one more loses its data, nobody gets in until one of those is back with its vote, or all of them, or new servers in their
// place, and max-ttl has passed. It is not for less: a node that does not answer may be the only one of those that vote
// that has the last ticket.
//
// Outside of that: an operator who breaks a lock takes it from a holder who learns of it at his next keep; until then two
// may hold, and the fence tells them apart. When a clock jumps ahead, two may hold too; set back, it only makes
// keys live longer. A holder that is paused between its
// look at the clock and its write writes late; only the fence refuses that.
package vote

// Package store is the contract between Holdfast and what keeps its locks: memory, a database, Redis, a consensus
// service. It has interfaces and plain types only. Programs that use locks never need it. Authors of stores read it
// whole, build on [github.com/holdfast-go/holdfast/store/frame], and test their store with
// [github.com/holdfast-go/holdfast/store/storetest]. docs/writing-a-store.md walks through a whole store.
//
// # The idea
//
// Claims on a resource wait in a queue, in order of arrival. The longest prefix of the queue that fits is held. The
// rest waits. A claim fits if its units, and those of all claims before it, are within its limit. Package
// [github.com/holdfast-go/holdfast/store/grant] has that rule as one pure function.
//
// # The life of a claim
//
//  1. The client makes an ID that was never used before, and calls [Store.Join].
//  2. The store appends the claim to its resource's queue, draws its ticket and evaluates the queue, all under one
//     serialisation of that resource. It returns Held, Waiting, or Gone for a refused Try.
//  3. While the claim is in the queue, held or waiting, the client calls [Store.Keep] for it about three times per ttl.
//  4. When the claims that block a waiting claim leave, the store grants it and notifies its client with a push
//     ([Store.Notify]). A push may be lost: then the next Keep reports the grant.
//  5. The claim ends by [Store.Leave], by [Store.Break], or by expiring: no Keep arrived within its ttl.
//
// # The rules
//
// Each rule is a group of cases in storetest, with at least one broken store that the cases catch.
//
// Rule 1, exclusion. The units of held claims never exceed the limit. If claims of a semaphore have different limits
// ([Claim].AnyLimit), a claim is granted only if its units, and those held before it, are within its own limit.
//
// Rule 2, order. Tickets rise strictly per resource, and grants follow tickets. The store draws the ticket and appends
// the claim under the resource's own serialisation (a script, a transaction that holds the resource's lock, a consensus
// index), never before it: a claim whose ticket is drawn first and which is appended later can be overtaken, and then a
// later holder has a smaller token than an earlier one. A ticket is from 1 to [MaxTicket]. A store without a queue
// draws the ticket when it grants the claim; until then the claim has ticket 0.
//
// Rule 3, floor. Join carries the highest ticket that this client has seen in this store. The store draws a greater one
// or, where it cannot, returns a final error: a store that lost its data must not issue tokens that a fence has already
// seen. If a floor is more than [FloorAhead] ahead of the server's clock in microseconds, the store refuses it with
// [ErrFloor]: one invalid client must not push the tickets of all clients to the end of their range. Where the highest
// ticket can be set by hand, the store neither continues from nor lowers one that [MarkTooHigh] refuses: the error
// ([BadMark]) reports where it is kept, and claims that are in the queue are still kept.
//
// Rule 4, time. If a claim is not kept for its ttl (and grace), by the store's clock or session and never by a client's
// wall clock, it expires. Every operation first removes the claims that have expired and grants the next claims that
// fit, so a late Keep gets Gone. Where nothing runs by itself (Redis, SQL), RecheckAt tells waiters the earliest moment
// at which a claim ahead of them can expire.
//
// Rule 5, until. Until is a local instant. The store computes it from when an acknowledged request was sent, plus ttl,
// less drift. It never computes it from when the response arrived: a response may be late by any time. The caller never
// adds a ttl by itself. A push never moves Until: a pushed grant is valid until the instant of the claim's last
// acknowledged Join or Keep.
//
// Rule 6, identity. Leave and Keep touch only the claim with that ID. No client releases or extends the claim of
// another. Keep never increases the units of a claim: of two sizes the store keeps the smaller, so that an old Keep
// that arrives late does not undo a downgrade.
//
// Rule 7, truth. A push can be lost, late or early; the status that Keep returns is true. Its view is never older than
// its own request, also for a claim that was deleted under a live session. Gone is final: a claim that was reported
// Gone is never again reported as anything else. It follows for the caller:
//   - A push that arrives before Join's acknowledgement grants nothing. Call Keep.
//   - A push may be forged, by other clients that can publish where the store does. A pushed Held is believed only for
//     the claim's own ID, which cannot be guessed, and with the ticket that Join's acknowledgement returned. With
//     another ticket it is a reason to call Keep, and so is a pushed Gone. A store that pushes Held therefore pushes it
//     with the ticket. Until then the claim's ID is in nothing that a mere subscriber receives: not in a message, nor
//     in the name of a channel or of a key.
//   - A push of Waiting grants nothing either: what blocked the claim may be gone. Call Keep. A store without a queue
//     wakes its waiters in this way: the server does not know them, and their Keep tries again.
//   - If the claim was believed held when a Keep was sent, and the Keep returns Waiting, then the store lost the grant.
//     The claim is over: Leave it. If the Keep was sent earlier, Waiting is outdated: ignore it.
//   - After pushes may have been lost (a reconnect), the store pushes for [Everyone], and the caller keeps all claims
//     once.
//
// Rule 8, unknown outcomes. A Join that timed out may still arrive, even after its Leave. If a claim's Join was never
// acknowledged (Ticket is 0), its Leave therefore writes a tombstone for its ttl, and a Join that finds its tombstone
// is Gone. Session stores repeat the removal until it is confirmed, and remove entries of their session that no claim
// owns. A caller that got an error will hold nothing. If Join returns a final error, nothing was joined.
//
// Rule 9, nothing leaks. When the last claim of a name is gone and the ttl (or the server's own sweep) has passed, the
// store holds no state for that name. The state that keeps tickets rising is bounded, not per name.
//
// Rule 10, names. Every name that [CheckName] accepts works exactly (case, spaces, slashes, braces), on every store;
// any other name is [ErrBadName] at once. Names are data, never spliced into a script, a query or a path. A store has a
// prefix, for many tenants on one server: stores with different prefixes never see each other's claims, and Names and
// Queue return names without it.
//
// Rule 11, honest errors. Unreachable, refused, wrong password, too old, read-only: each is a [Fault] with the store
// and its masked address, retryable or final, and never a status. A call returns when its context is done. If the
// context of Join, Keep or Leave has no deadline, the call gives up after the claim's ttl, with a Fault that is not
// final: a response that late is of no use. It follows for the caller:
//   - A Join that failed is not repeated: it may still arrive. A caller that waits leaves that claim and, after a
//     pause, joins with a new one, for as long as its own context allows. It stops at a final Fault, and when the store
//     has not responded at all for some time.
//   - A Fault is Busy if the store is connected and only did not respond in time. That time does not begin yet.
//
// Optional interfaces are documented where they are declared: [Detacher] for claims that outlive their client,
// [Watcher] and [Lister] for viewers.
//
// Rule 12, format. What a store writes carries a version. A client that finds a newer version returns [ErrFormat] and
// changes nothing.
package store

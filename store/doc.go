// Package store is the contract between Holdfast and whatever keeps its locks: memory, a database, Redis, a
// consensus service. It has interfaces and plain types only. Users of locks never need it; writers of stores
// read it whole, build on [github.com/holdfast-go/holdfast/store/frame], and prove themselves against
// [github.com/holdfast-go/holdfast/store/storetest]. docs/writing-a-store.md walks through a whole store.
//
// # The idea
//
// Claims on a resource stand in a line, in order of arrival. The longest prefix of the line that fits is held.
// The rest waits. Package line has that rule as one pure function.
//
// # The life of a claim
//
//  1. The client makes an ID that was never used before and calls [Store.Join].
//  2. The store puts the claim at the end of its resource's line, draws its ticket and evaluates the line, all
//     under one serialisation of that resource. It answers Held, Waiting, or (for a refused Try) Gone.
//  3. While the claim stands, held or waiting, the client calls [Store.Keep] for it about three times per ttl.
//  4. When what blocks a waiting claim leaves, the store grants it, and tells its client with a push
//     ([Store.Notify]). The push may be lost: then the next Keep tells.
//  5. The claim ends by [Store.Leave], by [Store.Break], or by its ttl running out unkept.
//
// # The rules
//
// Each rule is a group of cases in storetest, with at least one broken store that the cases catch.
//
// Rule 1, exclusion. The units of held claims never exceed the limit.
//
// Rule 2, order. Tickets rise strictly per resource, and grants follow tickets. Ticket and place are given
// under the resource's own serialisation (a script, a transaction that holds the resource's lock, a consensus
// index), never before it: a ticket drawn first and placed later can be overtaken, and then a later holder has
// a smaller token than an earlier one. A ticket is from 1 to [MaxTicket]. A store without a line has no places: it
// draws the ticket when it grants, and until then the claim has 0.
//
// Rule 3, floor. Join carries the highest ticket that this client has seen in this store. The store gives a greater
// one, or, where it cannot, a final error: a store that lost its data must not hand out tokens that a fence has already
// passed. A floor more than [FloorAhead] ahead of the server's clock in microseconds is refused with [ErrFloor], not
// believed: one mad client must not push everyone's tickets to the end of their range. Where the highest ticket can be
// set by hand, one that [MarkTooHigh] refuses is neither counted on from nor lowered: the error ([BadMark]) says where
// it is kept, and claims that stand are kept all the same.
//
// Rule 4, time. A claim not kept for its ttl (and grace), by the store's clock or session and never by a
// client's wall clock, is out. Every operation first removes what is out, so that a late Keep gets Gone, and
// whoever now fits is granted. Where nothing runs by itself (Redis, SQL), RecheckAt tells waiters the earliest
// moment at which anything ahead of them can run out.
//
// Rule 5, until. Until is a local instant that the store computes from when an acknowledged request was sent,
// plus ttl, less drift. It is never computed from when the answer arrived: an answer may be late by any time.
// The caller never adds a ttl by itself. A push never moves Until: a pushed grant is valid until the claim's
// last acknowledged Join or Keep says.
//
// Rule 6, identity. Leave and Keep touch only the claim with that ID. Nobody releases or extends another's.
// Keep never gives a claim more units than it has: of two sizes the store keeps the smaller, so that an old
// Keep that arrives late does not undo a downgrade.
//
// Rule 7, truth. A push can be lost, late or early; Keep tells the truth. Its view is never older than its own
// request, also about a claim that was deleted under a living session. Gone is final: a claim that was reported
// Gone is never again reported as anything else. What follows for the caller:
//   - A push that comes before Join's acknowledgement grants nothing. Ask with Keep.
//   - A push may be forged, by strangers who can publish where the store does. A pushed Held is believed only for the
//     claim's own ID, which nobody can guess, and with the ticket that Join's acknowledgement gave. With another ticket
//     it is a reason to ask, and so is a pushed Gone. So a store that pushes Held does it with the ticket, and until
//     then has the claim's ID in nothing that a mere subscriber hears: not in a message, nor in the name of a channel
//     or of a key.
//   - A push of Waiting grants nothing either: whatever blocked the claim may be gone. Ask with Keep. So does a store
//     without a line wake those who wait: nothing of them is known at the server, and their Keep tries again.
//   - Waiting, in answer to a Keep that was sent after the claim was believed held, means that the store lost
//     the grant. The claim is over: Leave it. Waiting in answer to an earlier Keep is old news: ignore it.
//   - After pushes may have been lost (a reconnect), the store pushes for [Everyone], and the caller keeps
//     everything once.
//
// Rule 8, unknown outcomes. A Join that timed out may still land, even after its Leave. So Leave of a claim
// whose Join was never acknowledged (Ticket is 0) leaves a tombstone for its ttl, and a Join that finds its
// tombstone is Gone. Session stores clean until confirmed, and reconcile entries of their session that no claim
// owns. A caller that got an error will hold nothing. A final error of Join says that nothing was joined.
//
// Rule 9, nothing leaks. When the last claim of a name is gone and the ttl (or the server's own sweep) has
// passed, the store holds no state for that name. What keeps tickets rising is bounded, not per name.
//
// Rule 10, names. Any name that [CheckName] accepts works exactly (case, spaces, slashes, braces), on every
// store; anything else is [ErrBadName] at once. Names are data, never spliced into a script, a query or a
// path. A store has a prefix, for many tenants on one server: stores with different prefixes never see each
// other's claims, and Names and Line show names without it.
//
// Rule 11, honest errors. Unreachable, refused, wrong password, too old, read-only: a [Fault] naming the store
// and the masked address, retryable or final, and never a standing. A call returns when its context is done.
// Join, Keep and Leave whose context has no deadline give up after the claim's ttl, with a Fault that is not
// final: an answer that late says nothing any more. What follows for the caller:
//   - A Join that failed is not repeated: it may still land. Whoever waits leaves that claim and joins with a new one,
//     after a pause, for as long as its own context allows. A final Fault ends that, and so does a while in which the
//     store answers nothing at all.
//   - A Fault is Busy if the store is connected, and only did not answer in time. Then it is not that while yet.
//
// Optional interfaces, such as [Watcher] and [Lister] for viewers, are documented where they are declared.
//
// Rule 12, format. What is written carries a version. A client that meets a newer one says so with [ErrFormat]
// and touches nothing.
package store

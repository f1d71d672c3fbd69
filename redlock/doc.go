// Package redlock keeps locks in a majority of independent Redis masters.
//
//	import _ "github.com/holdfast-go/holdfast/redlock"
//
//	locks, err := holdfast.Open(ctx, "redlock://h1,h2,h3,h4,h5")
//
// [Open] takes options as well, and [New] uses clients of rueidis that the program already has.
//
// # URL
//
//	redlock://USER:PASSWORD@H1:PORT,H2:PORT,H3:PORT/DB    an odd number of masters, at least three
//	redlocks://…                                          the same over TLS
//
//	prefix=P                precedes each name to make its key
//	ttl=10s                 the default ttl
//	max-ttl=60s             the longest ttl with its grace, the same for all clients
//	node-timeout=200ms      how long a node may take to respond (default: a twentieth of the ttl, 50 ms at most)
//	tokens=unsaved          tokens that a majority need not have, and that may fall: not for fences
//	allow=replicas,eviction accept nodes that have replicas or are watched by Sentinel, or that may evict locks
//	password-file=FILE      read the password from a file, again for each new connection
//	ca=FILE, cert=FILE, key=FILE, server-name=NAME, insecure-skip-verify=true    over TLS, as in package redisstore
//
// # Guarantees and their limits
//
// A lock is held when a majority of the nodes has granted it and its time, counted from when the requests were sent, is
// not over. Fewer than half of the nodes may be down, unresponsive, read-only, out of memory or unreachable; locking
// continues at the pace of the fastest majority. If more fail, a try fails within the timeout, holds nothing, and
// returns an error with the reason for each node. Calls that wait then try again, with pauses that grow, for as long as
// their context allows; they end with that error if no majority has responded for ten seconds. Nodes that are connected
// and only slow end no wait, and a release waits for them too, for the ttl.
//
// A node that was restarted or has lost its data has no vote for max-ttl, so that it cannot grant what it has
// forgotten. Each script checks that at the node. All clients of the nodes must be Holdfast's for that. New nodes are
// marked once by [Init] (holdfast redlock init), or else they vote only after max-ttl. Before a planned restart that
// keeps all data, [Trust] (holdfast redlock trust) lets a node go on voting after it.
//
// Two clients may hold one lock if nodes evict, fail over to replicas, or have clocks that jump: one node is enough if
// the holder has a bare majority. If the key of a lock is deleted, its holder sets it again with its next renewal. As
// with every lock that expires, a holder that was paused may act after its time: only a fence stops that.
//
// Locks cannot be detached from their clients. To attach one, a client would have to replace its value at a majority of
// the nodes. Two clients that attach it at the same time would each replace it at some of them, and then neither has a
// majority, nor can the earlier value get one back. And a node that has lost the key of a lock gets it again from the
// holder's next renewal, which a detached lock does not have.
//
// There is no queue: a waiter tries again when a release is published, after a short random delay. There are no shared
// locks, and deadlocks are not detected.
//
// # The parts
//
// Package vote decides, without any I/O. This package sends its requests to the nodes and returns the responses: a bid
// has the state machine of one claim (bid.go), a node has the connections to one server (node.go, send.go), and an
// admission gives nodes their vote back (admission.go). Package internal/rediskey has what it shares with the plain
// mode of redisstore.
//
// # What a node keeps
//
// The lock of a name is one key at each node, the prefix followed by the name. It is set as the published algorithm
// sets it, SET KEY VALUE NX PX, with the same value at all nodes and another value for each try. When the ticket is
// drawn it is written after the value: "VALUE ticket 1763198523000000". A key that holds anything else is a lock of
// another client, whether that follows the same rules or not; it is read and never changed.
//
// Beside the locks a node has, in the same database:
//
//	holdfast:{}:redlock               the record
//	holdfast:{}:redlock:id            the identity of the deployment, the same at all nodes
//	holdfast:{}:redlock:left:VALUE    a tombstone of a try that ended while its take could still arrive; it expires
//	holdfast:{}:redlock:freed:KEY     the channel on which the release of a lock is published
//
// The record is one string, whose form is in node.lua. It has the run of the server that wrote it, so that a node knows
// when it was restarted; a node without a record has lost its data, or is fresh. It also has the mark, the highest
// ticket known there, so that neither is lost alone. All deployments that use one database of a server share its
// record, and so must have the same max-ttl.
//
// Each request is one run of a script, by the node's own clock. All scripts read the record first. For a lock without
// contention they run: MGET, TIME, SET, SET to acquire it with its ticket; MGET, DEL, PUBLISH to release it; MGET once
// for all locks that are kept together, and PEXPIRE for each. A ticket that another lock has overtaken meanwhile is
// drawn again, with MGET, TIME, SET, SET.
//
// # The smallest ACL
//
// For the scripts a user needs, with the prefix P:
//
//	~P* ~holdfast:{}:redlock* &holdfast:{}:redlock:freed:*
//	    +eval +evalsha +mget +set +del +exists +pexpire +pttl +time +publish
//
// and for the store itself:
//
//	+get +info +subscribe +unsubscribe +ping +hello
//
// Without +publish, waiters are not notified, and poll. With +pubsub|numsub the store detects that Sentinel watches a
// node, which is refused, and with +script|load a new client's first lock is as fast as the next.
package redlock

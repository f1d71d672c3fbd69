// Package redlock keeps locks in a majority of independent Redis masters.
//
//	locks, err := holdfast.Open(ctx, "redlock://h1,h2,h3,h4,h5")
//
// # What holds
//
// A lock is held when a majority of the nodes has granted it and there is time left, reckoned from when they were
// asked. Up to half of the nodes, rounded down, may be down, silent, read-only, out of memory or unreachable; locking
// goes on at the pace of the fastest majority. If more fail, a try fails within the timeout, with an error that says
// of each node what is the matter, and holds nothing. Calls that wait then try again, with pauses that grow, as far
// as their context allows; they end with that error if no majority has answered anything for ten seconds. Nodes that
// are connected and only slow end no wait, and a release waits for them too, for the ttl.
//
// A node that was restarted or has lost its data has no vote for max-ttl, so that it cannot grant what it has forgotten.
// That is checked at the node, in each script. It needs all clients of the nodes to be Holdfast's. New nodes are marked once
// by Init (holdfast redlock init), or else they vote only after max-ttl. Before a planned restart that keeps all data, Trust
// (holdfast redlock trust) lets a node go on voting after it.
//
// Two may hold one lock if nodes evict, fail over to replicas, or have clocks that jump: one node is enough if the holder has
// a bare majority. If somebody deletes a lock's key, its holder sets it again with its next renewal. As with every lock that
// runs out, a holder that was paused may act after its time: only a fence stops that.
//
// There is no line: who waits tries again, when a release is told, by chance a little later than others. There are no
// shared locks, and no search for deadlocks.
//
// # The parts
//
// Package vote decides, without any I/O. This package carries its requests to the nodes and the answers back: a bid has the
// machine of one claim (bid.go), a node has the connections to one server (node.go, send.go), and an admission gives nodes their
// vote back (admission.go). Package internal/rediskey has what it shares with the
// plain mode of redisstore.
//
// # What a node keeps
//
// The lock of a name is one key at each node, the name with the prefix before it as it is. It is set as the published
// algorithm sets it, SET KEY VALUE NX PX, with the same value at all nodes, and another for each try. When the ticket is
// drawn it is written behind the value: "VALUE ticket 1763198523000000". A key that holds anything else is taken, by
// somebody who keeps to the same rules or not; it is read and never changed.
//
// Beside the locks a node has, in the same database:
//
//	holdfast:{}:redlock               the record
//	holdfast:{}:redlock:id            the deployment's identity, the same at all nodes
//	holdfast:{}:redlock:left:VALUE    a tombstone: a try that was given up while its take could still come; it expires
//	holdfast:{}:redlock:freed:KEY     the channel on which it is told that a lock was given back
//
// The record is one string, whose form is in node.lua. It says which run of the server wrote it, so that a node knows
// when it was restarted; a node without one has lost its data, or is fresh. With it goes the mark, the highest ticket
// known there, so that neither is lost alone. All deployments that use one database of a server share its record, and so
// must have one max-ttl.
//
// Each request is one run of a script, by the node's own clock. All of them look at the record first. For a lock that
// nobody else wants they do this: MGET, TIME, SET, SET to take it with its ticket; MGET, DEL, PUBLISH to give it back; MGET
// once for all locks that are kept together, and PEXPIRE for each. A ticket that another lock has overtaken meanwhile is
// drawn anew, with MGET, TIME, SET, SET.
//
// A user of Redis needs for them, with the prefix P:
//
//	~P* ~holdfast:{}:redlock* &holdfast:{}:redlock:freed:*
//	    +eval +evalsha +mget +set +del +exists +pexpire +pttl +time +publish
//
// and the store, beside them:
//
//	+get +info +subscribe +unsubscribe +ping +hello
//
// Without +publish those who wait are not told, and look for themselves. With +pubsub|numsub it is seen whether Sentinel
// watches a node, which is refused, and with +script|load a new client's first lock is as fast as the next.
package redlock

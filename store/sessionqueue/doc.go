// Package sessionqueue keeps queues of claims at a server that has sessions: what stores on ZooKeeper and Consul have
// in common. A store implements [Server], and embeds [Store].
//
// All claims of a client share one session, which is renewed by [github.com/holdfast-go/holdfast/store/frame.Sessions].
// A claim is a node, which ends with the session; its position in the queue is the node's. A waiting claim watches only
// what blocks it. Events alone are never trusted: Keep verifies every claim at the server.
//
// The response to a Join can be lost, and the request can arrive after its caller has stopped waiting. Before such a
// claim counts as left, requests in flight are made void ([Server.Void]), and a node that was made is found by its ID
// and deleted. If the server does not respond, the delete is pending, and is repeated until the server does.
//
// At a server that can move a node from one session to another ([Mover]), claims can be detached: a store embeds
// [Detacher] then. Requests that move nodes are made void in the same way.
package sessionqueue

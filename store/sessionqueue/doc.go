// Package sessionqueue keeps queues of claims at a server that has sessions: what stores on ZooKeeper and Consul have
// in common. A store implements [Server], and embeds [Store].
//
// All claims of a client share one session, which is renewed by [github.com/holdfast-go/holdfast/store/frame.Sessions].
// A claim is a node, which ends with the session; its position in the queue is the node's. A waiting claim watches what
// blocks it and nothing else. Events are never trusted alone: Keep asks the server about every claim.
//
// The response to a Join can be lost, and the request can be on its way for longer than its caller waits. Before such a
// claim counts as left, what may still land is made void ([Server.Void]), and what has landed is found by its ID and
// deleted. What could not be deleted because the server did not respond is pending, and deleted when it does.
package sessionqueue

// Package zkstore keeps locks in ZooKeeper, 3.5 or later. What a majority of the servers has acknowledged is not lost,
// whichever minority of them fails.
//
//	import _ "github.com/holdfast-go/holdfast/zkstore"
//
//	locks, err := holdfast.Open(ctx, "zk://h1:2181,h2:2181,h3:2181")
//
// or, with settings in Go:
//
//	s, err := zkstore.Open(ctx, []string{"h1", "h2", "h3"}, zkstore.Tick(2*time.Second))
//	locks := holdfast.New(s)
//
// # URL
//
//	zk://USER:PASSWORD@HOST:PORT,HOST:PORT,…/CHROOT
//	zks://…                              the same over TLS
//
//	/CHROOT                 the path of a node, which must exist: everything is under it; without it, under the root
//	USER:PASSWORD           a user of the digest scheme; nodes are then made for this user alone
//	prefix=P                keeps tenants of one ZooKeeper apart
//	ttl=10s                 the timeout of the session; 30s if it is not given
//	tick=2s                 the greatest tickTime of the servers; 3s if it is not given
//	layout=curator          shares mutexes with programs that use Curator or zk.Lock (see below)
//	layout=curator-rw       shares Curator's read-write locks
//	ca=FILE                 for zks: whom to trust, instead of the system's authorities
//	cert=FILE, key=FILE     for zks: the client's certificate
//	server-name=NAME        for zks: the name that the servers' certificates must have
//	insecure-skip-verify=true   for zks: trust anybody
//
// A port that is not given is 2181. A ttl is at least four ticks. Servers allow from 2 to 20 of their ticks unless they
// are told otherwise (minSessionTimeout, maxSessionTimeout). A ttl that they don't allow is refused, and the error says
// what they allow.
//
// # A session, and what its servers know of it
//
// A client has one session, whatever the number of its locks. Its ttl is the ttl of all of them: a lock can't ask for
// less, and one that asks for more gets the session's. When the session is over, all that the client held is lost, and
// the next Lock begins a new one. Nothing of the old session is taken over.
//
// A session is expired by the leader of the servers, by what the leader knows. Clients mostly talk to followers, and
// those know more than the leader:
//
//   - A follower responds to pings and reads by itself, also when it has lost the leader and does not know that yet. So
//     they extend nothing here.
//   - A follower reports to the leader which of its sessions it has heard of, every half tick. Between two reports not
//     even a request that it passes on to the leader extends the session.
//   - Reports and requests travel over one connection, in order. So when the leader has carried out a request, it has
//     had every report that was made before.
//
// This is what a lock's time is computed from. The session is renewed three times per ttl, and by every acquisition
// and every renewal of locks, with a transaction, which only a majority can carry out. When that is acknowledged, the
// client takes the time at which the transaction was sent, goes back by one tick, and looks for the last request or
// ping over the same connection whose response it had by then. The follower has reported that before it passed the
// transaction on, so that the leader counts the ttl from when that was sent, or later. A lock is believed until the
// ttl after that time, less 1 % and 2 ms. If the connection was made anew between the sending and the response, the
// transaction extends nothing.
//
// It rests on one assumption: a server reports its sessions within tick. It does so whenever the leader asks, which is
// every half of its tickTime, so that tick must not be less than the tickTime of any server, and must have room for
// what the leader's question may be late by. The protocol does not tell it, which is why it is a parameter. A greater
// one is safe, and costs that much of what a lock is believed for. Where observers follow through another server
// (observerMasterPort) a report has one more hop: give twice the tickTime then.
//
// A server that has not carried out a renewal within a sixth of the ttl is left for the next one.
//
// # What a line looks like
//
//	/holdfast/id                                 tells stores apart
//	/holdfast/session/SESSION                    one for each client; its version is the session's epoch
//	/holdfast/line/NAME                          a line: a container, which the servers remove when it is empty
//	/holdfast/line/NAME/1-ID-lUNITS.LIMIT-SEQ    a claim: l of a lock, s of a semaphore
//	/holdfast/line/NAME/1-ID-to-UNITS            a claim that has shrunk since
//
// With a prefix P, /holdfast/tenant/P stands for /holdfast. A / or . in a name, and what ZooKeeper takes in no path, is
// written as %2F, %2E and so on.
//
// A claim is an ephemeral sequential node. All that decides which claims hold is in the names of nodes, so that one
// request reads it; the data of nodes is for people and for finding deadlocks. Join is one transaction: it demands the
// session's epoch, makes the node, and writes the line's own node, whose data is always empty. The response to the
// write has the number of the transaction and the number of nodes in the line. The first is the claim's ticket: unlike
// the sequence it does not begin again when a line was removed and made anew. The second says whether the line must be
// read at all. So a lock that no other client wants costs one request, and its release another.
//
// A waiting claim watches what blocks it: one that wants everything, the two claims before it; a reader, the last ahead
// that is no reader; a part of a semaphore, the line. So the release of a lock wakes two claims. The next one holds
// without another request. The one after that reads the line, and knows then that it is the next: the read is over
// before its turn comes. A claim that stands for more than 25 ms also watches its own node: one that an operator
// deletes is noticed at once. Watches are for speed. Keep has a transaction demand the node of every claim, so that a
// watch which is lost or late extends nothing.
//
// The servers look for empty containers once a minute (znode.container.checkIntervalMs). The first claim after a line
// was removed costs two requests more. A line whose container was made and whose first claim never came stays until the
// name is used, or until the servers remove it (znode.container.maxNeverUsedIntervalMs).
//
// # A Join whose response was lost
//
// The response to a Join can be lost, and the request can be on its way for longer than its caller waits. Join demands
// the session's epoch, which is the version of the session's node. Giving up a claim whose Join may still come writes
// that node once more: then it can't land any more, at any time. After that the line is read, and a node with the
// claim's ID is deleted. This costs a write, a read and at most one delete, shared by all that are given up at the same
// time; a Join that was just being sent in the old epoch is refused, and sent again. What could not be deleted because
// no server responded is deleted after the next renewal.
//
// # Beside Curator
//
// With layout=curator the name of a lock is the path of its line, from the chroot on, and nodes are named as those of
// Curator's InterProcessMutex and of go-zookeeper's zk.Lock: _c_UUID-lock-SEQ. With layout=curator-rw they are named as
// those of InterProcessReadWriteLock: _c_UUID-__WRIT__SEQ and _c_UUID-__READ__SEQ. Both sides then exclude each other
// and are served in one order. There are no semaphores, no Downgrade and no prefix. Owner and label are in the data of
// Holdfast's nodes, which Curator does not look at; of Curator's own, only the order is known. The data of the line's
// node is Curator's and stays as it is, so that Join writes another node and always reads the line: that is one request
// more. The first component of a name is neither holdfast nor zookeeper, no component is empty, and none has a %: such
// names are escaped. So "/a" is another lock than "a", and a path with a % can't be shared. Holdfast's truth
// about time is its own. Tokens rise among Holdfast's holders, and Curator's have none.
//
// Nodes that are made under a USER are closed to programs that have not logged in as the same.
//
// # What holds, and what cannot
//
// Exclusion, order and tokens hold through the loss of any minority of the servers, of the leader, and of the network
// between servers, as far as the pace of clocks goes: a session is measured by the pace of the leader's clock. With
// less than a majority nothing is granted and nothing renewed; what is held ends with its ttl on both sides.
//
// After the death of a client its locks are free when the ttl has passed, rounded up to the leader's tick, since the
// leader last heard of it. A new leader gives every session its whole ttl again, so that it may take twice the ttl, and
// as long as elections take.
//
// Servers that have lost their data, or were restored from a backup, may count transactions from a lower number.
// Clients that have seen a greater ticket get [store.ErrFloor] rather than a token that a fence would refuse; new
// clients can't know.
//
// # Why no connection can be handed in
//
// The client library's *zk.Conn tells neither when a request was sent nor over which connection it was carried out, and
// the time of a lock is computed from both. When its session has expired it begins another by itself, and sends what
// was left in its queue under that: a claim could land that belongs to nobody. So a store makes its own, over
// connections that note what is sent and that don't outlive their session.
//
// # The smallest ACL
//
// The node /holdfast is made by the first store that may create it under the chroot. Or an administrator makes it, for
// a user who may create nodes under it and needs no permission above it; HASH is what ZooKeeper's
// DigestAuthenticationProvider prints for user:password:
//
//	create /holdfast "" digest:USER:HASH:c
//
// All below is made by the store, for this user alone. A store with a prefix makes /holdfast and /holdfast/tenant such
// that every user may create tenants under them; each tenant's nodes are for its own user alone. Nodes that are there
// are taken as they are, whoever has made them. So where users don't trust each other, an administrator makes
// /holdfast/tenant/P for each in the same way.
package zkstore

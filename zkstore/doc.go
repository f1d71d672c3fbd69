// Package zkstore keeps locks in ZooKeeper, 3.5 or later. What a majority of the servers has acknowledged is not lost,
// whichever minority of them fails.
//
//	import _ "github.com/holdfast-go/holdfast/zkstore"
//
//	locks, err := holdfast.Open(ctx, "zk://h1:2181,h2:2181,h3:2181")
//
// or, with settings in Go:
//
//	s, err := zkstore.Open(ctx, []string{"h1", "h2", "h3"}, zkstore.WithTick(2*time.Second))
//	locks := holdfast.New(s)
//
// # URL
//
//	zk://USER:PASSWORD@HOST:PORT,HOST:PORT,…/CHROOT
//	zks://…                              the same over TLS
//
//	/CHROOT                 the path of a node, which must exist: everything is under it; without it, under the root
//	USER:PASSWORD           a user of the digest scheme; nodes are then accessible to this user only
//	password-file=FILE      has the password of USER; it is read again for each login (see below)
//	prefix=P                keeps tenants of one ZooKeeper apart
//	ttl=10s                 the timeout of the session; the default is 30s
//	tick=2s                 the greatest tickTime of the servers; the default is 3s
//	layout=curator          shares mutexes with programs that use Curator or zk.Lock (see below)
//	layout=curator-rw       shares Curator's read-write locks
//	ca=FILE                 for zks: the authorities to trust, instead of the system's
//	cert=FILE, key=FILE     for zks: the client's certificate
//	server-name=NAME        for zks: the name that the servers' certificates must have
//	insecure-skip-verify=true   for zks: trust any certificate
//
// The default port is 2181. A ttl is at least four ticks. Servers allow from 2 to 20 of their ticks unless they are
// configured otherwise (minSessionTimeout, maxSessionTimeout). A ttl that they don't allow is refused, and the error
// contains what they allow.
//
// # Sessions, and what servers know of them
//
// A client has one session, whatever the number of its locks. The session's ttl is the ttl of all of them: a lock that
// requests less is refused, and a lock that requests more has the session's. When the session is over, all locks of the
// client are lost, and the next Lock begins a new session. Nothing of the old session is taken over.
//
// The leader of the servers expires a session, by what the leader knows. Clients are mostly connected to followers, and
// followers know more than the leader:
//
//   - A follower responds to pings and reads by itself, also when it has lost the leader and does not know that yet. So
//     pings and reads extend nothing here.
//   - A follower reports to the leader which of its sessions it has heard of, every half tick. Between two reports not
//     even a request that it forwards to the leader extends the session.
//   - Reports and requests travel over one connection, in order. So when the leader has carried out a request, it has
//     received every report that was made before.
//
// The validity of a lock is computed from this. The session is renewed three times per ttl, and by every acquisition
// and every renewal of locks, with a transaction, which only a majority can carry out. When that is acknowledged, the
// client takes the time at which the transaction was sent, subtracts one tick, and looks up the last request or ping
// over the same connection whose response it had by then. The follower has reported that before it forwarded the
// transaction, so that the leader counts the ttl from when that was sent, or later. A lock is valid until the ttl has
// passed since that time, less 1 % and 2 ms. If the connection was replaced between the sending and the response, the
// transaction extends nothing.
//
// This rests on one assumption: a server reports its sessions within tick. It does so whenever the leader asks, which
// is every half of its tickTime. So tick must not be less than the tickTime of any server, and must leave room for a
// question of the leader that is late. The protocol does not transmit it, which is why it is a parameter. A greater
// tick is safe, and shortens the validity of locks by the difference. Where observers follow through another server
// (observerMasterPort) a report has one more hop: configure twice the tickTime there.
//
// A server that has not carried out a renewal within a sixth of the ttl is left for the next one.
//
// # Nodes
//
//	/holdfast/id                                 tells stores apart
//	/holdfast/session/SESSION                    one for each client; its version is the session's epoch
//	/holdfast/line/NAME                          a queue: a container, which the servers remove when it is empty
//	/holdfast/line/NAME/1-ID-lUNITS.LIMIT-SEQ    a claim: l of a lock, s of a semaphore
//	/holdfast/line/NAME/1-ID-to-UNITS            a claim whose units have shrunk since
//
// With a prefix P, everything is under /holdfast/tenant/P instead of /holdfast. A / or . in a name, and characters that
// ZooKeeper does not allow in paths, are written as %2F, %2E and so on.
//
// A claim is an ephemeral sequential node. All that decides which claims hold is in the names of nodes, so that one
// request reads it; the data of nodes is for operators and for finding deadlocks. Join is one transaction: it demands
// the session's epoch, makes the node, and writes the queue's own node, whose data is always empty. The response to the
// write contains the number of the transaction and the number of nodes in the queue. The first is the claim's ticket:
// unlike the sequence number it does not begin again when a queue was removed and made anew. The second tells whether
// the queue must be read at all. So a lock that no other client wants costs one request, and its release another.
//
// A waiting claim watches what blocks it: an exclusive claim watches the two claims before it; a reader, the last claim
// ahead that is not a reader; a part of a semaphore, the whole queue. So a release wakes two claims. The next one holds
// without another request. The one after that reads the queue, and knows then that it is the next: it has done the read
// before its turn comes. A claim that stays for more than 25 ms also watches its own node, so that its deletion by an
// operator is noticed at once. Watches are for speed. Keep demands the node of every claim in a transaction, so that a
// watch that is lost or late extends nothing.
//
// The servers look for empty containers once a minute (znode.container.checkIntervalMs). The first claim after a queue
// was removed costs two requests more. A queue whose container was made and whose first claim never arrived stays until
// the name is used, or until the servers remove it (znode.container.maxNeverUsedIntervalMs).
//
// # Joins whose response is lost
//
// The response to a Join can be lost, and the request can arrive later than its caller waits. Join demands the
// session's epoch, which is the version of the session's node. Giving up a claim whose Join may still arrive writes
// that node, after which that Join can't be carried out any more, at any time. Then the queue is read, and a node with
// the claim's ID is deleted. This costs a write, a read and at most one delete, shared by all claims that are given up
// at the same time; a Join that was being sent in the old epoch is refused, and sent again. What can't be deleted
// because no server responds is deleted after the next renewal.
//
// # Interoperation with Curator
//
// With layout=curator the name of a lock is the path of its queue, from the chroot on, and nodes are named like those
// of Curator's InterProcessMutex and of go-zookeeper's zk.Lock: _c_UUID-lock-SEQ. With layout=curator-rw they are named
// like those of InterProcessReadWriteLock: _c_UUID-__WRIT__SEQ and _c_UUID-__READ__SEQ. Both sides then exclude each
// other and are served in one order. There are no semaphores, no Downgrade and no prefix. Owner and label are in the
// data of Holdfast's nodes, which Curator does not read; of Curator's own nodes only the order is known. The data of
// the queue's node is Curator's and stays as it is, so that Join writes another node and always reads the queue: that
// is one request more. The first component of a name is neither holdfast nor zookeeper, no component is empty, and none
// has a %: such names are escaped. So "/a" is another lock than "a", and a path with a % can't be shared. Holdfast
// computes the validity of its own locks as described above; Curator computes that of its own. Tokens rise among
// Holdfast's holders, and Curator's holders have none.
//
// Nodes that are made under a USER are not accessible to programs that have not logged in as the same user.
//
// # Guarantees and limits
//
// Exclusion, order and tokens survive the loss of any minority of the servers, of the leader, and of the network
// between servers, as long as clocks run at about the same pace: a session is measured by the pace of the leader's
// clock. With less than a majority nothing is granted and nothing is renewed, and what is held ends with its ttl on
// both sides.
//
// After the death of a client its locks are free when the ttl has passed, rounded up to the leader's tick, since the
// leader last received a report of the client. A new leader grants every session its whole ttl again, so that it may
// take twice the ttl, and the time of the elections.
//
// Servers that have lost their data, or were restored from a backup, may count transactions from a lower number.
// Clients that have seen a greater ticket get [store.ErrFloor] rather than a token that a fence would reject; new
// clients can't know.
//
// A claim can't be detached from its client ([store.Detacher]): ZooKeeper removes an ephemeral node with the session
// that made it, and can't give it to another one. A node that is made anew would have another number, so that the claim
// would lose its ticket and its position.
//
// # Why no *zk.Conn can be passed in
//
// The client library's *zk.Conn reports neither when a request was sent nor over which connection it was carried out,
// and the validity of a lock is computed from both. When its session has expired it begins another by itself, and sends
// what was left in its queue under that: a claim could be made that no client knows of. So a store makes its own, over
// connections that record what is sent and that don't outlive their session.
//
// # Smallest ACL
//
// The node /holdfast is made by the first store that may create it under the chroot. Or an administrator makes it, for
// a user who may create nodes under it and needs no permission above it; HASH is what ZooKeeper's
// DigestAuthenticationProvider prints for user:password:
//
//	create /holdfast "" digest:USER:HASH:c
//
// Everything below is made by the store, for this user only. A store with a prefix makes /holdfast and /holdfast/tenant
// such that every user may create tenants under them; each tenant's nodes are for its own user only. Nodes that exist
// are used as they are, whichever client has made them. So where users don't trust each other, an administrator makes
// /holdfast/tenant/P for each in the same way.
//
// # Passwords that change
//
// ZooKeeper's digest scheme has no list of users: a user with another password is another user, and the ACL of a node
// names the user by a hash of both. So a new password takes two steps. First replace the file, or what
// [WithCredentials] reads; then, at once, let the nodes belong to the new user, HASH being that of the new password:
//
//	setAcl -R /holdfast digest:USER:HASH:cdrwa
//
// A client whose request is refused for lack of a permission reads the password again, logs in with that as well, and
// sends the request again. So living clients go on, and keep what they hold. From then on their nodes are accessible to
// both users. Until the second step is done, clients that are opened with the new password are refused. A claim that is
// made while setAcl runs may be missed by it, and is not accessible to clients that know only the new password until it
// leaves: run setAcl once more.
package zkstore

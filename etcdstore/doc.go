// Package etcdstore keeps locks in etcd, 3.5.13 or later, for programs that need correctness first. etcd does not lose
// what it has acknowledged, whichever minority of its members fails.
//
//	import _ "github.com/holdfast-go/holdfast/etcdstore"
//
//	locks, err := holdfast.Open(ctx, "etcd://h1:2379,h2:2379,h3:2379")
//
// or, with settings in Go:
//
//	s, err := etcdstore.Open(ctx, []string{"h1", "h2", "h3"}, etcdstore.WithTTL(10*time.Second))
//	locks := holdfast.New(s)
//
// or, with a client that the program already has and continues to own:
//
//	s, err := etcdstore.New(ctx, client)
//	locks := holdfast.New(s)
//
// # URL
//
//	etcd://USER:PASSWORD@HOST:PORT,HOST:PORT,…
//	etcds://…                            the same over TLS
//
//	prefix=P                keeps tenants of one etcd apart
//	ttl=10s                 the ttl of the session, in whole seconds; the default is 30s
//	password-file=FILE      has the password of USER; it is read again for each login
//	ca=FILE                 for etcds: the authorities to trust, instead of the system's
//	cert=FILE, key=FILE     for etcds: the client's certificate
//	server-name=NAME        for etcds: the name that the servers' certificates must have
//	insecure-skip-verify=true   for etcds: trust any certificate
//
// The default port is 2379.
//
// # Sessions
//
// A client has one session, which is a lease in etcd, whatever the number of its locks. The session's ttl is the ttl of
// all of them: a lock that requests less is refused, and a lock that requests more has the session's. The session is
// renewed over one stream, three times per ttl and whenever locks are kept. Each renewal goes along with a read that
// only the real leader can answer: a leader that was deposed, and does not know it yet, must not extend anything. A
// lock is valid until the ttl has passed since the last acknowledged renewal was sent, less 1 % and 2 ms. etcd counts
// from when it received that renewal, so it never expires a lock that is still believed to be held. When etcd no longer
// has the lease, all locks of the client are lost, and the next Lock begins a new session.
//
// # Queues
//
// A claim is a key under the session's lease. Its position in the queue is the key's create revision, which is also its
// ticket. Join is one transaction that puts the key and reads what is ahead of it. Leave is one transaction that
// deletes the key at that create revision. A waiting claim watches what blocks it: an exclusive claim watches the claim
// before it; a reader, the last claim ahead that is not a reader; a part of a semaphore, the whole queue. So a release
// wakes only the next claim, which reads its own key and what is ahead of it in one transaction before it takes the
// lock as held. A claim that stays for more than a moment also watches its own key, so that its deletion by an operator
// is noticed at once.
//
// All watches share one stream, without a goroutine for each. They are never trusted alone: Keep reads every claim's
// key from etcd, so that a watch that lags behind extends nothing.
//
// # Requests whose response is lost
//
// The response to a Join can be lost, and the request can arrive later than its caller waits. The session has a key of
// its own, and every Join is conditional on that key's mod revision. Deleting a claim whose Join may still arrive also
// writes the session's key, after which that Join can't be carried out any more, at any time. What can't be deleted
// because etcd does not respond is deleted when it does. The client need not do anything, and nothing is kept per name.
//
// # Detached claims
//
// A held claim can outlive its client ([store.Detacher]). Detach grants a lease of its own for it, of whole seconds,
// rounded up, and of at least what etcd grants. In one transaction the key gets that lease, and its value the new ID,
// if nothing has changed the key meanwhile. So its create revision, and with it ticket and position, stays; the end of
// the client's session does not affect it; and etcd deletes it when its own lease expires. Attach likewise moves it to
// the session of the client that attaches it, and a further Detach to a new lease. The lease before is revoked.
//
// A new leader of etcd grants every lease its whole ttl again. So a claim that was detached for long, and is not
// attached, may stay for as much longer with each change of the leader.
//
// Detach is two requests, and Attach is two. Both are conditional on the session's epoch, as Join is: a request that
// arrives after its new ID was left is not carried out. Programs of earlier versions read a detached claim as any other
// holder's.
//
// # Logins
//
// A client logs in with the user and the password of the moment whenever it needs a token of etcd: when it is opened,
// before each stream, and when etcd has rejected its token. etcd does that after the password was changed; tokens of
// that user are void then. So change the password in etcd, and then in the file or in what [WithCredentials] reads. In
// between, logins fail with an error that is final for Lock; leases that are held are renewed as soon as a login
// succeeds, and are lost if none does within the ttl. A client that was handed to [New] logs in with the password that
// it was made with.
//
// # Guarantees and limits
//
// Exclusion, order and tokens survive the loss of any minority of members, of the leader, of the network between
// members, and clocks that are set, as long as clocks run at about the same pace: a lease is measured by the pace of
// the leader's clock. (etcd's LeaseCheckpoint, which is off by default, may shorten a lease of more than five minutes
// when the leader changes: leave it off, or the ttl, and the time of detached claims, below that.) With less than a
// majority nothing is granted and nothing is renewed, and what is held ends with its ttl on both sides.
//
// After the death of a client its locks are free when the ttl has passed and etcd has checked for expired leases, which
// it does twice a second. A new leader grants every lease its whole ttl again, so that it may take twice the ttl, and
// the time of the elections.
//
// An etcd that was restored from a backup has a lower revision than before. Clients that have seen a greater ticket get
// [store.ErrFloor] rather than a token that a fence would reject; new clients can't know. Restore with --bump-revision
// and --mark-compacted, which etcd has for this case.
//
// # Smallest role
//
// For the prefix P (without a prefix, leave P empty):
//
//	etcdctl role grant-permission holdfast --prefix=true readwrite holdfast/P/
package etcdstore

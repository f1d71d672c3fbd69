// Package etcdstore keeps locks in etcd, 3.5.13 or later: for those who need correctness first. What etcd has
// acknowledged it does not lose, whichever minority of its members fails.
//
//	import _ "github.com/holdfast-go/holdfast/etcdstore"
//
//	locks, err := holdfast.Open(ctx, "etcd://h1:2379,h2:2379,h3:2379")
//
// or, with a client that the program has anyway and that stays its own:
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
//	ttl=10s                 the ttl of the session, in whole seconds; 30s if it is not given
//	ca=FILE                 for etcds: whom to trust, instead of the system's authorities
//	cert=FILE, key=FILE     for etcds: the client's certificate
//	server-name=NAME        for etcds: the name that the servers' certificates must have
//	insecure-skip-verify=true   for etcds: trust anybody
//
// # A session
//
// A client has one session, which is a lease in etcd, whatever the number of its locks. Its ttl is the ttl of all of
// them: a lock cannot ask for less, and who asks for more gets the session's. The session is renewed over one stream,
// three times per ttl and whenever locks are kept, and each time together with a read that only the real leader can
// answer: one that was deposed, and does not know it yet, must not extend anything. A lock is believed until the ttl
// after the renewal was sent that etcd has answered, less 1 % and 2 ms. etcd counts from when it got the renewal, so it
// never takes away what is still believed. When etcd has the lease no more, everything that the client held is lost,
// and the next Lock begins a new session.
//
// # What a line looks like
//
// A claim is a key under the session's lease, and its place in the line is the key's create revision, which is also its
// ticket. Join is one transaction that puts the key and reads what is ahead; Leave is one that deletes the key at that
// create revision. A waiting claim watches what blocks it: one that wants everything, the claim before it; a reader,
// the last ahead that is no reader; a part of a semaphore, the line. So the release of a lock wakes nothing but the
// next claim. That reads its own key and what is ahead, in one transaction, before it believes that it holds. A claim
// that stands for more than a moment also watches its own key: one that an operator deletes is noticed at once.
//
// All watches are on one stream, without a goroutine for each. Whether they are right is never taken for granted: Keep
// reads every claim's key from etcd, so that a watch which lags behind extends nothing.
//
// # A Join that nobody knows of
//
// The response to a Join can be lost, and the request can be on its way for longer than its caller waits. The session
// has a key of its own, whose mod revision all Joins are conditional on. Deleting a claim whose Join may still come
// also writes that key once more: then it can land no more, at any time. What could not be deleted because etcd did not
// respond is deleted when it does. The client need not do anything, and nothing has to be kept for each name.
//
// # What holds, and what cannot
//
// Exclusion, order and tokens hold through the loss of any minority of members, of the leader, of the network between
// members and of clocks, as far as their pace goes: a lease is measured by the pace of the leader's clock. (etcd's
// LeaseCheckpoint, which is off unless it was asked for, may take from a lease of more than five minutes when the
// leader changes: leave it off, or the ttl below that.) With less than a majority nothing is granted and nothing
// renewed; what is held ends with its ttl on both sides.
//
// After the death of a client its locks are free when the ttl has passed and etcd has looked, which it does twice a
// second. A new leader gives every lease its whole ttl again, so that it may take twice the ttl, and as long as
// elections take.
//
// An etcd that was restored from a backup has a lower revision than before. Clients that have seen a greater ticket get
// [store.ErrFloor] rather than a token that a fence would refuse; new clients cannot know. Restore with --bump-revision
// and
// --mark-compacted, by which etcd provides for this.
//
// # The smallest role
//
// For the prefix P (for none, leave P empty):
//
//	etcdctl role grant-permission holdfast --prefix=true readwrite holdfast/P/
package etcdstore

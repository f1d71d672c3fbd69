// Package consulstore keeps locks in Consul, 1.15 or later. What a majority of its servers has acknowledged is not
// lost, whichever minority of them fails.
//
//	import _ "github.com/holdfast-go/holdfast/consulstore"
//
//	locks, err := holdfast.Open(ctx, "consul://127.0.0.1:8500")
//
// or, with settings in Go:
//
//	s, err := consulstore.Open(ctx, []string{"127.0.0.1:8500"}, consulstore.WithTTL(20*time.Second))
//	locks := holdfast.New(s)
//
// # URL
//
//	consul://:TOKEN@HOST:PORT            an agent or a server
//	consul://HOST:PORT,HOST:PORT,…       several: the next is used when one does not respond
//	consul:///PATH/OF/SOCKET             an agent's unix socket
//	consuls://…                          over TLS
//
//	prefix=P                keeps tenants of one Consul apart
//	ttl=20s                 the ttl of the session; the default is 15s
//	mode=plain              shares locks with `consul lock` and api.Lock (see below)
//	datacenter=D            the datacenter whose servers keep the locks, instead of the agent's own
//	namespace=N             the namespace of keys and sessions, where Consul has namespaces
//	node=N                  the node that sessions belong to; the default is holdfast (see below)
//	token-file=FILE         has the token; it is read again when Consul refuses the one that was read
//	ca=FILE                 for consuls: the authorities to trust, instead of the system's
//	cert=FILE, key=FILE     for consuls: the client's certificate
//	server-name=NAME        for consuls: the name that the servers' certificates must have
//	insecure-skip-verify=true   for consuls: trust any certificate
//
// The default port is 8500, or 8501 with TLS. The default token is that of the environment, CONSUL_HTTP_TOKEN. Consul
// does not accept a ttl of less than 10s, unless its servers' session_ttl_min allows it.
//
// # Sessions
//
// A client has one session, whatever the number of its locks. The session's ttl is the ttl of all of them: a lock that
// requests less is refused, and a lock that requests more has the session's. When the session is over, all locks of the
// client are lost, and the next Lock begins a new session.
//
// Sessions are renewed three times per ttl, and whenever locks are kept. In Consul a renewal changes only the leader's
// memory: no other server knows of it. A leader that was deposed, and has not noticed that, renews sessions too, while
// its successor counts from its own election. So a renewal alone extends nothing here. Each goes along with a read that
// a leader answers only after a majority has confirmed it, in this order and over one connection:
//
//  1. The read is answered by a leader that a majority confirmed after the read was sent.
//  2. The renewal is sent when the read is answered. It goes through the same server, which never goes back to an
//     earlier leader than it has heard of. So it is carried out by the leader of the read, or by a later one.
//  3. If that one has been deposed meanwhile, its successor was elected after the read was sent, and has granted every
//     session its whole ttl since.
//
// Either way Consul counts from when the read was sent, or later, and that is what the client counts from. A lock is
// valid until the ttl has passed since then, less 1 % and 2 ms. A session that was not proved in this way for its ttl
// is over, also if Consul still has it.
//
// The second step holds for a server that the client is connected to. A client agent distributes requests over several
// servers, and so may a proxy: the read could go to one that knows the leader, and the renewal to another that does
// not. There it helps that Consul ends a session only after twice its ttl: to be believed for too long, a session would
// have to be renewed only by deposed leaders for more than a ttl. A leader that runs notices that it was deposed within
// 5 seconds (its lease of 500 ms times raft_multiplier, which is 10 at most), and a ttl is 10 seconds or more: don't
// let session_ttl_min allow less than 5 where there are client agents.
//
// # Sessions belong to no agent
//
// In Consul a session belongs to a node of the catalog, and ends with it. By default that is the node of the agent, and
// an agent that leaves ends its clients' sessions at once: so does a client agent that is restarted in an orderly way.
// The holders would believe in their locks while others acquire them, and could not be notified, since their agent is
// gone. So sessions here belong to a node that is not a machine, named holdfast, which is registered if it does not
// exist. It has no health checks, and neither have the sessions: a holder can't know in time what a check finds. An
// operator who deregisters the node ends all sessions.
//
// # Keys
//
//	holdfast/id                          tells stores apart
//	holdfast/session/SESSION             one for each client; its modify index is the session's epoch
//	holdfast/line/NAME/ID                a claim; its create index is its position in the queue, and its ticket; ID is
//	                                     the one that it joined with
//	holdfast/tenant/PREFIX/…             the same for a prefix
//
// NAME and PREFIX are escaped, with ~XX for bytes that are not letters, digits, dots, - or _.
//
// All keys of a client are locked by its session, and deleted with it, except for detached claims (see below). Join is
// one transaction that demands the session's epoch, makes the claim's key, and reads the queue; Leave is one
// transaction that deletes the key. A waiting claim has a blocking query on what blocks it: an exclusive claim, on the
// claim before it; a reader, on the last claim ahead that is not a reader; a part of a semaphore, on the whole queue.
// So a release wakes only the next claim, which reads the queue to check that it is still in it. A client has at most
// 32 blocking queries for that, whatever the number of its locks. Further keys that it waits for are read four times a
// second, 64 keys in a request. All reads are consistent. Keep reads every claim's key, so that nothing rests on
// blocking queries alone.
//
// Each blocking query has a connection while it lasts. A client has one more for its session, one for renewals, and at
// most 16 for other requests. An agent accepts 200 connections from one address, and refuses more: where many processes
// of a machine have locks, raise its http_max_conns_per_client.
//
// # Joins whose response is lost
//
// The response to a Join can be lost, and the request can arrive later than its caller waits. All Joins demand the
// modify index of the session's key. Deleting a claim whose Join may still arrive writes that key, after which that
// Join can't be carried out any more, at any time.
//
// # Detached claims
//
// A held claim can outlive its client ([store.Detacher]). Detach creates a session for it, whose ttl is the time for
// which it is detached, and which is not renewed. One transaction unlocks the claim's key by the client's session and
// locks it by the new one, with the new ID in its value. No client sees the key unlocked, and its create index, and
// with it ticket and position, stays. The end of the client's session does not affect it, and Consul deletes it when
// its own session expires: not before the time has passed, and when twice that has passed. Attach likewise moves the
// key to the session of the client that attaches it, and a further Detach to a new session. The session before is
// destroyed; if that fails, it expires.
//
// These transactions demand the epoch of the client's session, as Join does: one that arrives after its new ID was left
// is not carried out. And they demand the key's modify index. So of several that move one key at most one is carried
// out, and a Keep or Leave of an earlier ID that arrives late finds another index, or another session.
//
// Detach is two requests, and Attach is two. The time is from the ttl of the store's session to 24 hours. Programs of
// earlier versions read a detached claim as any other holder's.
//
// # Plain mode
//
// With mode=plain a lock is one key, as in Consul's own tools: `consul lock` and the lock of Consul's Go library
// exclude Holdfast's holders, and are excluded by them. The name of a lock is its key; a prefix is put before it as it
// is. `consul lock P …` locks the key P/.lock, so that this is its name here. A key that exists and is not a lock, by
// its flags, is left alone, and the error reports that. A release deletes the key.
//
// There is no queue: a release wakes all waiting claims, and the first request that arrives takes the lock. So there is
// no order, nor are there readers or semaphores, and deadlocks are not found. A lock can't be detached: it would be
// locked anew for another session, and get another token. Time, sessions and tokens are as described above; the token
// is the index at which the key was locked. Other tools have no tokens, and each measures time in its own way: a holder
// of theirs whose session has ended may believe in its lock for a while. Against that they have Consul's lock-delay, 15
// seconds by default, which is respected here: a lock whose holder's session has ended is not granted for as long.
//
// Consul's semaphore is not shared. There a session is a holder, so that a client with one session could have one unit
// of a semaphore, and each client that wants to enter decides whether a holder lives, from what it has read.
//
// Keys that Consul's HTTP interface does not accept in a path as they are, as "a//b" or one with a %, are polled four
// times a second while a claim waits for them.
//
// # Guarantees and limits
//
// Exclusion, order and tokens survive the loss of any minority of the servers, of the leader, and of the network
// between servers, as long as clocks run at about the same pace: a session is measured by the pace of the leader's
// clock. With less than a majority nothing is granted and nothing is renewed, and what is held ends with its ttl on the
// holder's side.
//
// After the death of a client its locks are free when twice the ttl has passed since its last renewal. A new leader
// counts from its election, so that it may take twice as long, and the time of the elections.
//
// An operator who destroys a session, or deletes a claim's key, lets others acquire the lock while the holder still
// believes in it: the holder notices the former at once, if it is connected, and the latter by its next Keep.
//
// A Consul that was set up anew from a snapshot has a lower index than before. Clients that have seen a greater ticket
// get [store.ErrFloor] rather than a token that a fence would reject; new clients can't know. A snapshot that is
// restored under running clients acts as if an operator deleted all claims that are not in it.
//
// # Smallest policy
//
// For the prefix P; without a prefix, the first rule is for "holdfast/":
//
//	key_prefix "holdfast/tenant/P/" { policy = "write" }
//	session "holdfast"              { policy = "write" }
//	node "holdfast"                 { policy = "write" }
//
// The last one is only for registering the node. An administrator can do that once for all:
//
//	curl -X PUT -d '{"Node":"holdfast","Address":"127.0.0.1"}' http://127.0.0.1:8500/v1/catalog/register
package consulstore

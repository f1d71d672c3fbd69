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
//	consul://HOST:PORT,HOST:PORT,…       several: the next is taken when one does not respond
//	consul:///PATH/OF/SOCKET             an agent's unix socket
//	consuls://…                          over TLS
//
//	prefix=P                keeps tenants of one Consul apart
//	ttl=20s                 the ttl of the session; 15s if it is not given
//	mode=plain              shares locks with `consul lock` and api.Lock (see below)
//	datacenter=D            the datacenter whose servers keep the locks, instead of the agent's own
//	namespace=N             the namespace of keys and sessions, where Consul has namespaces
//	node=N                  the node that sessions belong to; holdfast if it is not given (see below)
//	token-file=FILE         has the token; it is read again when Consul refuses the one that was read
//	ca=FILE                 for consuls: whom to trust, instead of the system's authorities
//	cert=FILE, key=FILE     for consuls: the client's certificate
//	server-name=NAME        for consuls: the name that the servers' certificates must have
//	insecure-skip-verify=true   for consuls: trust anybody
//
// A port that is not given is 8500, or 8501 with TLS. A token that is not given is that of the environment,
// CONSUL_HTTP_TOKEN. Consul takes no ttl of less than 10s, unless its servers' session_ttl_min says otherwise.
//
// # A session
//
// A client has one session, whatever the number of its locks. Its ttl is the ttl of all of them: a lock can't ask for
// less, and one that asks for more gets the session's. When the session is over, all that the client held is lost, and
// the next Lock begins a new one.
//
// Sessions are renewed three times per ttl, and whenever locks are kept. In Consul a renewal is a matter of the
// leader's memory: no other server knows of it. A leader that was deposed, and has not noticed that, renews sessions
// too, while its successor counts from its own election. So a renewal alone extends nothing here. Each goes along with
// a read that a leader answers only after a majority has confirmed it, in this order and over one connection:
//
//  1. The read is answered by a leader that a majority confirmed after the read was sent.
//  2. The renewal is sent when the read is answered. It goes through the same server, which never goes back to an
//     earlier leader than it has heard of. So it is carried out by the leader of the read, or by a later one.
//  3. If that one has been deposed meanwhile, its successor was elected after the read was sent, and has given every
//     session its whole ttl since.
//
// Either way Consul counts from when the read was sent, or later, and that is what the client counts from. A lock is
// believed until the ttl after it, less 1 % and 2 ms. A session that was not proved so for its ttl is over, also if
// Consul still has it.
//
// The second step holds for a server that the client talks to. A client agent passes requests on to several servers,
// and so may a proxy: the read could go to one that knows the leader, and the renewal to another that does not. There
// it helps that Consul ends a session only after twice its ttl: to be believed for too long, a session would have to be
// renewed by nothing but deposed leaders for more than a ttl. A leader that runs notices that it was deposed within 5
// seconds (its lease of 500 ms times raft_multiplier, which is 10 at most), and a ttl is 10 seconds or more: don't let
// session_ttl_min allow less than 5 where there are client agents.
//
// # Sessions belong to no agent
//
// In Consul a session belongs to a node of the catalog, and ends with it. By default that is the node of the agent,
// and an agent that leaves takes its clients' sessions with it, at once: so does a client agent that is restarted in
// good order. The holders would believe in their locks while others get them, and could not be told, since it is their
// agent that is gone. So sessions here belong to a node that is no machine, named holdfast, which is registered if it
// is not there. It has no health checks, and nor have the sessions: what a check finds can't be known to the holder in
// time. An operator who deregisters the node ends all sessions.
//
// # What a line looks like
//
//	holdfast/id                          tells stores apart
//	holdfast/session/SESSION             one for each client; its modify index is the session's epoch
//	holdfast/line/NAME/ID                a claim; its create index is its place in the line, and its ticket
//	holdfast/tenant/PREFIX/…             the same for a prefix
//
// NAME and PREFIX are escaped, with ~XX for bytes that are no letters, digits, dots, - or _.
//
// All keys of a client are locked by its session, and deleted with it. Join is one transaction that demands the
// session's epoch, makes the claim's key, and reads the line; Leave is one that deletes the key. A waiting claim has a
// blocking query on what blocks it: one that wants everything, on the claim before it; a reader, on the last ahead
// that is no reader; a part of a semaphore, on the line. So the release of a lock wakes nothing but the next claim,
// which reads the line to see that it is still in it. A client has at most 32 blocking queries for that, whatever the
// number of its locks. What more it waits for is read four times a second, 64 keys in a request. All reads are
// consistent. Keep reads every claim's key, so that nothing rests on blocking queries alone.
//
// Each blocking query has a connection while it lasts. A client has one for its session, too, one for renewals, and at
// most 16 for other requests. An agent takes 200 connections from one address, and refuses more: where many processes
// of a machine have locks, raise its http_max_conns_per_client.
//
// # A Join that nobody knows of
//
// The response to a Join can be lost, and the request can be on its way for longer than its caller waits. All Joins
// demand the modify index of the session's key. Deleting a claim whose Join may still come writes that key once more:
// then it can land no more, at any time.
//
// # Plain mode
//
// With mode=plain a lock is one key, as Consul's own tools have it: `consul lock` and the lock of Consul's Go library
// exclude Holdfast's holders, and these exclude them. The name of a lock is its key; a prefix is put before it as it
// is. `consul lock P …` locks the key P/.lock, so that this is its name here. A key that exists and is no lock, by its
// flags, is left alone, and the error says so. A release deletes the key.
//
// There is no line: all that wait are woken by a release, and the first to come takes the lock. So there is no order,
// nor are there readers or semaphores, and deadlocks are not found. Time, sessions and tokens are as described above;
// the token is the index at which the key was locked. Other tools have no tokens, and each has its own truth about
// time: a holder of theirs whose session has ended may believe for a while. Consul's lock-delay, 15 seconds by
// default, is what they have against that, and it is respected here: a lock whose holder's session has ended stays
// free for as long.
//
// Consul's semaphore is not shared. There a session is a holder, so that a client with one session could have one unit
// of a semaphore, and whether a holder lives is decided by each client that wants to get in, from what it has read.
//
// Keys that Consul's HTTP interface does not take in a path as they are, as "a//b" or one with a %, are polled four
// times a second while a claim waits for them.
//
// # What holds, and what cannot
//
// Exclusion, order and tokens hold through the loss of any minority of the servers, of the leader, and of the network
// between servers, as far as the pace of clocks goes: a session is measured by the pace of the leader's clock. With
// less than a majority nothing is granted and nothing renewed; what is held ends with its ttl on the holder's side.
//
// After the death of a client its locks are free when twice the ttl has passed since its last renewal. A new leader
// counts from its election, so that it may take twice as long, and as long as elections take.
//
// An operator who destroys a session, or deletes a claim's key, lets others in while the holder still believes: it
// notices the former at once, if it is connected, and the latter by its next Keep.
//
// A Consul that was set up anew from a snapshot has a lower index than before. Clients that have seen a greater ticket
// get [store.ErrFloor] rather than a token that a fence would refuse; new clients can't know. A snapshot that is
// restored under running clients is as if an operator deleted all claims that are not in it.
//
// # The smallest policy
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

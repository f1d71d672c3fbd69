// Package redisstore keeps locks in Redis, 6.2 or later, or in Valkey, 8 or later: on one server, on the master that
// Sentinel names, or in a cluster (Redis 7.0 or later). Servers that resemble these are probed when the store is
// opened, and refused if they lack what locks need.
//
//	import _ "github.com/holdfast-go/holdfast/redisstore"
//
//	locks, err := holdfast.Open(ctx, "redis://127.0.0.1:6379")
//
// [Open] takes options as well. [New] uses a client of rueidis that the program already has, and package
// [github.com/holdfast-go/holdfast/redisstore/goredis] one of go-redis. [OpenConfig] is for a program with its own
// dialer.
//
// # URL
//
//	redis://USER:PASSWORD@HOST:PORT/DB
//	rediss://…                           the same over TLS
//	redis+unix:///PATH                   over a Unix socket; the database is a parameter
//	redis+sentinel://USER:PASSWORD@S1:PORT,S2:PORT,S3:PORT/NAME    the master with this name at these sentinels
//	redis+cluster://USER:PASSWORD@H1:PORT,H2:PORT,H3:PORT          the cluster that has these nodes
//	rediss+sentinel://…, rediss+cluster://…                        the same over TLS
//	valkey://…, valkeys://…, valkey+unix:///…, valkey+sentinel://… and so on: the same under another name
//
//	prefix=P                separates the tenants of one database
//	ttl=10s                 the default ttl
//	startup-delay=60s       grant nothing for this long after the server has started or has lost its data
//	mode=plain              locks as other libraries have them, instead of queues (see below); mode=queue is default
//	retry=100ms, drift=0.01 for plain mode: how often to check whether another library has released a lock, and the
//	                        part of the ttl by which a lease ends before the server lets it expire
//	eviction=refuse         refuse a server that may evict locks when its memory is full (default: warn)
//	wait-replicas=2         a grant or a renewal counts only when this many replicas have acknowledged it
//	wait-timeout=1s         how long they may take; well below a quarter of the ttl
//	password-file=FILE      read the password from a file, again for each new connection
//	db=1                    the database, over a Unix socket and by Sentinel
//	sentinel-user=U, sentinel-password=P    the credentials for the sentinels themselves
//	ca=FILE                 over TLS: the authorities to trust, instead of the system's
//	cert=FILE, key=FILE     over TLS: the client's certificate
//	server-name=NAME        over TLS: the name that the server's certificate must have
//	insecure-skip-verify=true   over TLS: accept any certificate
//
// In a user, a password or a parameter, / is written %2F, ? %3F, # %23, & %26, @ %40 and % %25.
//
// # Queues
//
// A queue of one claim, which is what most locks are most of the time, is one string with an expiry. To acquire it
// takes INCR and SET NX PX in a script, to release it GETRANGE and DEL. When a second claim arrives, the queue is
// expanded into four keys: the string then has the counts, a hash the claims, and two sorted sets their order by ticket
// and by deadline. The held claims are a prefix of the order by ticket. So each step takes a fixed number of commands
// and O(log n) time, however long the queue is. The keys expire by themselves some time after the last claim could. The
// script queue.lua describes all of it, and keys.go the names of the keys.
//
// Join, Keep, Leave and Break are one run of a script each, by the server's clock. Each script first removes claims
// that have expired and grants the next claims that fit. A claim that is granted by a call of another client is
// notified over Redis pub/sub: one message for each process that is concerned, on a channel of its own. A lost message
// costs time, not safety: a waiting claim is kept three times per ttl, and once more at the moment when a claim ahead
// of it can expire.
//
// Claims of a semaphore whose limits differ, while a limit is changed, are each granted within their own limit. A
// client of an earlier version that shares such a queue knows the least of the limits only: it grants nothing beyond
// that, and joins with no other.
//
// # Detached claims
//
// Detach and Attach are one run of a script each. It gives a held claim another ID and another deadline; ticket, units
// and position stay. The keys of the queue expire with the last deadline in it, so that a detached claim is removed
// even if no client uses the name again. A claim that waited before Detach or Attach set an earlier deadline learns of
// that with its next renewal.
//
// No client renews a detached claim. So if Redis loses it, as described below for leases, none learns of that before
// it attaches the claim. While a startup delay lasts, claims are not attached.
//
// # Tickets
//
// A ticket is one more than the mark, and above the floor. The mark is one key for all names, and begins with the
// server's clock in microseconds. It can only fall behind the clock, since there are not a million Joins per second. So
// whenever the mark may have been lost, in whole or in its last steps, it jumps to a minute ahead of the clock, and is
// then above every ticket that was ever drawn. That happens when the mark is missing, and when the server is another
// run of itself or another server. Each new connection requests the run before its first Join, and no connection
// outlives the server. So tickets go on rising through a restart without data, FLUSHALL, a clock that was set back and
// a failover, each alone. They may not if data is lost by a server whose clock was set back by more than it had been
// running.
//
// # Sentinel
//
// For each new connection the store requests the master from all sentinels, and it subscribes to all of them. It
// believes the sentinel that knows of the latest failover: one that is cut off may name the old master forever. So the
// store leaves a master that was replaced as soon as one reachable sentinel reports it, even if that master is still
// alive and does not know of it. One sentinel that responds is enough. One that does not respond delays a connection by
// a second at most, and by a tenth of it if most of the others respond.
//
// # Cluster
//
// All keys of a name are in one slot. What is shared by many names exists once for each slot that is in use: the mark,
// the server's run, and a channel for each process that has waited there. Keep is one run of a script for each slot.
//
// The store reads which node keeps a slot when it is opened, when a node redirects to one that is unknown, and
// repeatedly while a node cannot be reached. Nodes are addressed as the cluster prefers
// (cluster-preferred-endpoint-type); those in the URL only serve to find the others. Over TLS each certificate must
// have that name, or server-name.
//
// While a slot is being moved to another node, calls for its names wait until it has moved as a whole, or until their
// context is done: the store never uses a node that has only a part of a queue. A lock with one claim is still renewed
// until its key is moved. A move that takes longer than a ttl costs the leases of that slot.
//
// # Plain mode
//
// With mode=plain, or [WithPlainMode], a lock is one key, by the rules of the published lock on a single Redis: SET
// NAME VALUE NX PX, compare and delete, compare and PEXPIRE. So it excludes redsync, redislock, node-redlock and all
// other libraries that follow these rules on the same key, and is excluded by them. It is for sharing locks with them;
// docs/migrating/redis.md is the guide. For everything else use queues.
//
// PLAIN MODE AND QUEUES DO NOT SEE EACH OTHER: under one name they are two locks, which can both be held at the same
// time.
//
// The key is the prefix followed by the name: with prefix=lock: the lock "a" is the key lock:a. So a prefix separates
// tenants only if it is not the beginning of another tenant's keys; end it with a separator. A name that would be one
// of Holdfast's own keys, holdfast:{, is rejected. The value is "holdfast ID TICKET SINCE OWNER", for human readers,
// and differs for each claim; [WithValue] sets another.
//
// Detach and Attach replace the ID in the value, and the expiry. Ticket and SINCE stay, and the owner until the lock is
// attached. To other libraries a detached lock is one like any other, which is not renewed. With [WithValue] locks
// cannot be detached, since their values have no ticket.
//
// Plain mode has mutexes and elections, renewal, re-entrance, grace, hand-over inside a process, and tokens. It follows
// Sentinel, and waits for replicas. The following is missing and returns store.ErrUnsupported: shared locks, Names, a
// startup delay, a cluster, Break of a holder whose value is not Holdfast's own. There is no queue either: the first
// client to try when the lock is free acquires it, deadlocks are not detected, and Queue shows the holder alone.
//
// A waiter is known to its own client only, which tries again: when Holdfast releases a lock, which is published on a
// channel for each key that has waiters; when the holder's time is over; and at random intervals of about retry, since
// other libraries publish nothing. While the holder is one of Holdfast's, these intervals are ten times as long.
//
// Tickets come from the same mark, and are drawn with the grant. They rise among the holders that use Holdfast. A
// holder of another library draws none, so a token says nothing about it and a fence does not stop it: a fence is tight
// only if all clients use Holdfast.
//
// A try whose response was lost may be carried out later, and would then hold the lock for no client until its ttl has
// passed. So a claim that ends after such a try leaves a tombstone, holdfast:{}:left:ID:KEY, for as long.
//
// # Guarantees and their limits
//
// Redis acknowledges before it has saved or replicated. If it loses what it acknowledged (a restart without its data, a
// failover to a replica that lagged behind), then a claim may be granted while an earlier holder still believes in its
// lease, until the next renewal of that holder or the end of its ttl. The earlier holder has the smaller token, so that
// a fence refuses it. With startup-delay=D nothing is granted for D after a start or a loss of all data, which closes
// this hole if D is not below the longest ttl; a database that was never used counts as one that lost its data. All
// clients must have the same startup-delay, including those that only read (Inspect, Names): a read without it grants
// what is due.
//
// A detached claim can be lost in the same way, and so can an Attach: then another client may attach the claim again.
// Both have the ticket of the claim, so that a fence does not tell them apart. The first one learns of its loss at its
// next renewal.
//
// With wait-replicas=N a grant or a renewal that fewer than N replicas have acknowledged is an error: the claim is
// withdrawn, or is not renewed. The same holds for Detach and Attach. A grant that was pushed counts when a Keep has
// confirmed it. So a failover to any of N replicas loses no lock, if no more than N can be promoted: one more may have
// lagged behind. While a replica is missing nothing is granted. A master that is cut off together with some clients
// renews nothing for them. All clients must have the same N. It costs one WAIT for all calls that are in progress at
// the same time.
//
// Tickets can fall behind when a master is demoted, resynchronised with less than it had, and promoted again, while a
// connection to it stays open and idle the whole time.
//
// A lease ends 1 % of its ttl and 2 ms before the server lets it expire, so that the two clocks may differ in pace by
// that much. If the server's clock is set forward, claims expire early by as much; if it is set back, late.
//
// A server that may evict keys may lose locks. Open logs a warning, or fails with eviction=refuse.
//
// # Connections
//
// A store has two, in a cluster two for each master: one for the commands of all calls of the process, and one for
// pushes. With wait-replicas there is a third, and with Sentinel one to each sentinel. A call returns when its context
// is done, also while a connection is being made. No command is retried automatically: a call without a response
// returns an error, and its caller leaves and joins again, or keeps again.
//
// With password-file or [WithCredentials], the credentials are obtained again for each new connection. Connections that
// were made before stay. While the server refuses the credentials, calls fail with a fault that is not final.
//
// # The smallest ACL
//
// For the prefix P (for none, leave P empty):
//
//	user holdfast on >PASSWORD resetkeys ~holdfast:{P|* ~holdfast:{P}:* resetchannels &holdfast:{P}:push:* -@all
//	    +ping +info +time +select +subscribe +publish +eval +evalsha +scan +get +getrange +set +incr +del +exists
//	    +pexpire +pexpireat +pttl +hget +hset +hdel +zadd +zrem +zrank +zrange +zrangebyscore +zscore +zcard
//
// With wait-replicas also +wait. In a cluster the keys are
//
//	~holdfast:{P|* ~holdfast:{P}:id ~holdfast:{*}:mark:P ~holdfast:{*}:run:P &holdfast:{*}:push:P:*
//
// and the commands have +cluster|nodes +cluster|slots +ssubscribe +spublish instead of +select +subscribe +publish. A
// sentinel's user needs &+switch-master +ping +subscribe +sentinel|master +sentinel|get-master-addr-by-name.
//
// In plain mode, for the prefix P:
//
//	user holdfast on >PASSWORD resetkeys ~P* ~holdfast:{}:* resetchannels &holdfast:{}:push:* -@all
//	    +ping +info +time +select +subscribe +unsubscribe +publish +eval +evalsha +get +set +incr +del +exists
//	    +pexpire +pttl
//
// SCAN is for listing names only. It shows the names of other tenants' keys, which Redis cannot prevent.
package redisstore

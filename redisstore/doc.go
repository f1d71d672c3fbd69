// Package redisstore keeps locks in Redis, 6.2 or later, or in Valkey, 8 or later: on one server, on whichever Sentinel
// says is the master, or in a cluster (Redis 7.0 or later). A server that only resembles them is asked when the store
// is opened, and refused where it lacks what locks need.
//
//	import _ "github.com/holdfast-go/holdfast/redisstore"
//
//	locks, err := holdfast.Open(ctx, "redis://127.0.0.1:6379")
//
// or, with a client that the program has anyway and that stays its own:
//
//	s, err := redisstore.New(ctx, client)
//	locks := holdfast.New(s)
//
// Package goredis, below this one, does the same with a client of go-redis.
//
// # URL
//
//	redis://USER:PASSWORD@HOST:PORT/DB
//	rediss://…                           the same over TLS
//	redis+unix:///PATH                   over a Unix socket; the database is a parameter
//	redis+sentinel://USER:PASSWORD@S1:PORT,S2:PORT,S3:PORT/NAME    the master that these sentinels call so
//	redis+cluster://USER:PASSWORD@H1:PORT,H2:PORT,H3:PORT          the cluster that these are nodes of
//	rediss+sentinel://…, rediss+cluster://…                        the same over TLS
//	valkey://…, valkeys://…, valkey+unix:///…, valkey+sentinel://… and so on, the same under another name
//
//	prefix=P                keeps tenants of one database apart
//	ttl=10s                 the default ttl
//	guard=60s               nothing is granted for so long after the server was started, or has lost its data
//	mode=plain              locks as other libraries have them, instead of a line (see below); mode=queue is the default
//	retry=100ms, drift=0.01 for plain mode: how often to look whether another library has given a lock back, and which
//	                        part of the ttl a lease is over before the server lets it run out
//	eviction=refuse         refuse a server that may throw away locks when its memory is full (default: warn)
//	wait-replicas=2         a grant or a renewal counts only when so many replicas have acknowledged it
//	wait-timeout=1s         how long they may take; well below a quarter of the ttl
//	db=1                    the database, over a Unix socket and by Sentinel
//	sentinel-user=U, sentinel-password=P    what the sentinels themselves want
//	ca=FILE                 over TLS: whom to trust, instead of the system's authorities
//	cert=FILE, key=FILE     over TLS: the client's certificate
//	server-name=NAME        over TLS: the name that the server's certificate must have
//	insecure-skip-verify=true   over TLS: trust anybody
//
// In a user, a password or a parameter, / is written %2F, ? %3F, # %23, & %26, @ %40 and % %25.
//
// # What a line looks like
//
// A line of one claim, which is what most locks are most of the time, is one string with an expiry. Taking it is INCR
// and SET NX PX in a script, giving it back GETRANGE and DEL. When a second claim comes, the line is unfolded into four
// keys: the string then has the counts, a hash the claims, and two sorted sets their order by ticket and by deadline. The
// held claims are the first so many of the order. So each step costs a fixed number of commands and O(log n), however
// long the line is. The keys expire by themselves some time after the last claim could. line.lua has all of it, and the
// keys' names are in keys.go.
//
// Join, Keep, Leave and Break are one run of a script each, by the server's clock, and every one of them first removes
// what is out and grants whoever now fits. Who is granted by what another does is told over Redis pub/sub: one message
// for each process that has something to hear, on a channel of its own. A push that is lost costs time, not safety: a
// waiting claim is kept three times per ttl, and asks again at the moment when somebody ahead can run out.
//
// # Tickets
//
// A ticket is one more than the mark, and above the floor. The mark is one key for all names, and begins with the server's
// clock in microseconds. It can only fall behind the clock: nobody joins a million times a second. So whenever the mark may
// have been lost, in whole or its last steps, it jumps to a minute ahead of the clock, and is above everything that was
// ever given: when it is missing, and when the server is another run of itself or another server. Each new connection
// asks for the run before its first Join, and no connection outlives the server. So tickets go on rising through a
// restart without data, FLUSHALL, a clock that was set back and a failover, each alone. Together they may not: data lost
// by a server whose clock was set back by more than it had been running.
//
// # Sentinel
//
// Each time that the store connects, it asks all sentinels for the master, and it listens to all of them. It believes the
// one that knows of the latest failover: one that is cut off may name the old master for ever. So the store leaves a master
// that was replaced as soon as a sentinel says so that it reaches, also where that one lives on and does not know of it. One
// sentinel that answers is enough. One that does not costs a second at most, and a tenth of it if most of them do.
//
// # Cluster
//
// All keys of a name lie in one slot. What is for many names is there once for each slot that is in use: the mark, the
// server's run, and a channel for each process that has waited there. Keep is one run of a script for each slot.
//
// Which node keeps a slot is asked for at the beginning, when a node names one that is not known, and again and again while
// one cannot be reached. Nodes are called as the cluster prefers (cluster-preferred-endpoint-type); those in the URL are
// only asked for the others. Over TLS each certificate must have that name, or server-name.
//
// While a slot is being moved to another node, calls about its names wait until it has come as a whole, or until their
// time is over: the store never asks a node that has a part of a line. Whoever holds a lock alone is still renewed until
// its key is moved. A move that takes longer than a ttl costs the leases of that slot.
//
// # Plain mode
//
// With mode=plain, or [WithPlainMode], a lock is one key, by the rules of the published lock on a single Redis: SET NAME VALUE NX
// PX, compare and delete, compare and PEXPIRE. So it excludes, and is excluded by, redsync, redislock, node-redlock and
// whatever else keeps to these rules on the same key. It is for living beside them, and docs/migrating.md is the guide. For
// anything else keep a line.
//
// PLAIN MODE AND A LINE DO NOT SEE EACH OTHER: under one name they are two locks, which can both be held at the same time.
//
// The key is the name, with the prefix before it as it is: with prefix=lock: the lock "a" is the key lock:a. So a prefix keeps
// tenants apart only if none is the beginning of another's keys; end it with a separator. A name that would be one of Holdfast's
// own keys, holdfast:{, is a bad name. The value is "holdfast ID TICKET SINCE OWNER", for people, and differs with each
// claim; [Value] makes another.
//
// What it has: mutexes and elections, renewal, re-entrance, grace, hand-over inside a process, and tokens. It follows
// Sentinel, and waits for replicas. What it has not is store.ErrUnsupported: shared locks, Names, guard, a cluster, Break of a holder
// whose value is not Holdfast's own. And it has no line: whoever asks first when the lock is free gets it, deadlocks are not
// found, and Line shows the holder alone.
//
// Who waits is known to nobody but its own client, which tries again: when a lock is given back by Holdfast, which is told on a
// channel for each key that somebody waits for; when the holder's time is over; and every retry or so, by chance more or less,
// since others tell nobody. While the holder is one of Holdfast's that is ten times as seldom.
//
// Tickets come from the same mark, and are drawn with the grant. They rise among the holders that are Holdfast's. A holder of
// another library draws none. So a token says nothing about it, and a fence does not stop it: only when all are Holdfast's is a
// fence tight.
//
// A try whose answer was lost may land later, and then hold the lock for nobody until its ttl has passed. So whoever gives up after
// one leaves a tombstone, holdfast:{}:left:ID:KEY, for as long.
//
// # What holds, and what cannot
//
// Redis acknowledges before it has saved or replicated. If it loses what it acknowledged (a restart without its data, a
// failover to a replica that lagged behind), then a claim may be granted while an earlier holder still believes, until
// that one's next renewal or the end of its ttl. Its token is the smaller one, so that a fence refuses it. With guard=D
// nothing is granted for D after a start or a loss of all data, which closes this hole if D is not below the longest ttl;
// a database that was never used counts as one that lost its data. All clients must have the same guard, those that only
// look (Inspect, Names) too: whoever looks without it grants what is due.
//
// With wait-replicas=N a grant or a renewal that fewer than N replicas have acknowledged is an error: the claim is
// withdrawn, or not renewed. A grant that was pushed counts when a Keep has said the same. So a failover to any of N
// replicas loses no lock, if there are no more than N that can be promoted: one beyond them may have lagged behind. While
// a replica is missing nothing is granted. A master that is cut off with some of its clients renews nothing for them.
// All clients must have the same N. It costs one WAIT for all calls that are under way at the same time.
//
// Tickets can fall behind when a master is demoted, resynchronised with less than it had, and promoted again, while a
// connection to it stays open and idle the whole time.
//
// A lease is over 1 % of its ttl and 2 ms before the server lets it run out, so that the two clocks may differ in pace by
// that much. A server clock that is set forward lets claims run out early by as much; set back, late.
//
// A server that may evict keys may lose locks. Open warns, or refuses with eviction=refuse.
//
// # Connections
//
// A store has two, in a cluster two for each master: one for commands, all calls of the process together, and one for
// pushes. With replicas to wait for there is a third, and with Sentinel one to each sentinel. A call ends when its context
// does, also while a connection is being made. No command is sent twice by itself: a call whose answer did not come is an
// error, and its caller leaves and joins anew, or keeps again.
//
// # The smallest ACL
//
// For the prefix P (for none, leave P empty):
//
//	user holdfast on >PASSWORD resetkeys ~holdfast:{P|* ~holdfast:{P}:* resetchannels &holdfast:{P}:push:* -@all
//	    +ping +info +time +select +subscribe +publish +eval +evalsha +scan +get +getrange +set +incr +del +exists +pexpire
//	    +pexpireat +pttl +hget +hset +hdel +zadd +zrem +zrank +zrange +zrangebyscore +zscore +zcard
//
// With replicas to wait for also +wait. In a cluster the keys are
//
//	~holdfast:{P|* ~holdfast:{P}:id ~holdfast:{*}:mark:P ~holdfast:{*}:run:P &holdfast:{*}:push:P:*
//
// and the commands have +cluster|nodes +cluster|slots +ssubscribe +spublish instead of +select +subscribe +publish. A sentinel's user
// needs &+switch-master +ping +subscribe +sentinel|master +sentinel|get-master-addr-by-name.
//
// In plain mode, for the prefix P:
//
//	user holdfast on >PASSWORD resetkeys ~P* ~holdfast:{}:* resetchannels &holdfast:{}:push:* -@all
//	    +ping +info +time +select +subscribe +unsubscribe +publish +eval +evalsha +get +set +incr +del +exists +pexpire +pttl
//
// SCAN is for listing names only. It sees the keys' names of other tenants, which Redis cannot keep from it.
package redisstore

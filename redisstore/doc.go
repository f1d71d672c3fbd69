// Package redisstore keeps locks in Redis, 6.2 or later, or in a server that speaks like it.
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
// # URL
//
//	redis://USER:PASSWORD@HOST:PORT/DB
//	rediss://…                           the same over TLS
//	redis+unix:///PATH                   over a Unix socket; the database is a parameter
//
//	prefix=P                keeps tenants of one database apart
//	ttl=10s                 the default ttl
//	guard=60s               nothing is granted for so long after the server was started, or has lost its data
//	eviction=refuse         refuse a server that may throw away locks when its memory is full (default: warn)
//	db=1                    the database, for redis+unix
//	ca=FILE                 for rediss: whom to trust, instead of the system's authorities
//	cert=FILE, key=FILE     for rediss: the client's certificate
//	server-name=NAME        for rediss: the name that the server's certificate must have
//	insecure-skip-verify=true   for rediss: trust anybody
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
// # What holds, and what cannot
//
// Redis acknowledges before it has saved or replicated. If it loses what it acknowledged (a restart without its data, a
// failover to a replica that lagged behind), then a claim may be granted while an earlier holder still believes, until
// that one's next renewal or the end of its ttl. Its token is the smaller one, so that a fence refuses it. With guard=D
// nothing is granted for D after a start or a loss of all data, which closes this hole if D is not below the longest ttl;
// a database that was never used counts as one that lost its data. All clients must have the same guard, those that only
// look (Inspect, Names) too: whoever looks without it grants what is due.
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
// A store has two: one for commands, all calls of the process together, and one for pushes. A call ends when its context
// does, also while a connection is being made. No command is sent twice by itself: a call whose answer did not come is an
// error, and its caller leaves and joins anew, or keeps again.
//
// # The smallest ACL
//
// For the prefix P (for none, leave P empty):
//
//	user holdfast on >PASSWORD resetkeys ~holdfast:{P|* ~holdfast:{P}:* resetchannels &holdfast:{P}:push:* -@all
//	    +ping +info +time +select +subscribe +publish +eval +evalsha +scan +get +getrange +set +incr +del +exists +pexpire
//	    +pexpireat +pttl +hget +hset +hdel +hgetall +zadd +zrem +zrank +zrange +zrangebyscore +zscore +zcard
//
// SCAN is for listing names only. It sees the keys' names of other tenants, which Redis cannot keep from it.
package redisstore

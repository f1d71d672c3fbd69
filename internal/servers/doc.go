// Package servers starts real servers for tests, each in a temp folder on free loopback ports.
//
//	redis := servers.Redis(t, servers.Args("--appendfsync", "always"))
//	client := dial(redis.Addr())
//	etcd := servers.EtcdCluster(t, 3).Client(t)
//	old, err := servers.RedisSentinel(t).Master()
//	db := servers.Postgres(t).DB(t)
//	standby := servers.MariaDB(t).Replica(t)
//	leader, err := servers.ZooKeeperEnsemble(t, 3).Leader()
//	token, err := servers.Consul(t, servers.Password(secret)).Token(ctx, rules)
//
// A server that is missing on this machine skips the test with a line that says what was left out and how to get it.
// With CI=true, or with HOLDFAST_REQUIRE_SERVERS set as `make test` does, it fails the test instead: see [Need].
// Servers are looked for on the PATH, and etcd, Consul and Valkey where `make servers` puts them; HOLDFAST_ETCD and
// HOLDFAST_CONSUL name others. Where Debian keeps servers off the PATH, they are found too. ZooKeeper is Debian's, or
// the jar that HOLDFAST_ZOOKEEPER_JAR names.
//
// # What happens
//
//  1. Ports are picked below 32768, where the kernel takes none for outgoing connections, and probed. A stranger may
//     take one between the probe and the start. Then the server says that its address is in use, and the start is
//     tried again on other ports. On Linux a port is a test's own until the test ends, also while its server is
//     stopped: no other test binary takes it.
//  2. The server is ready when it answers on its port and is the process that was started. A stranger on that port
//     is never taken for it.
//  3. What the server prints goes into the file log of its folder. When the test fails, the end of it is printed and
//     the folder is kept. When it passes, the folder is removed.
//  4. The server ends with the test, by its process. If the test binary is killed, the kernel ends the server (on
//     Linux).
//
// # Faults
//
// [Server] can be stopped, killed, started again on the same ports with its data or without, paused and continued.
// Each method returns when it is so. They return errors rather than fail the test: any goroutine may call them. A
// [Clock] steps the time that a server sees. What happens on the way to a server is for package lab/proxy.
//
// Stop asks a server to end and waits for it. Etcd waits in turn for clients who have streams open, for six seconds.
// Kill takes no time, and what the server has acknowledged is still there after Start.
//
// # Programs
//
// [Outside] starts servers for a program that is not a test, such as the one in bench.
//
// # More than one Redis
//
// [RedisReplicas] are a master and its replicas, whom the test promotes. [RedisSentinel] has sentinels that do so, and
// [RedisCluster] is a cluster of masters with a replica each. They start within three seconds, and notice a dead master
// far sooner than one would want in production. Kill a master and AwaitFailover; start it again and AwaitHealthy before
// the next. [RedisServer.Lag] makes a replica fall behind its master.
//
// Each of them, and [Redis], starts Valkey with the option [Valkey].
//
// Stop lets a master wait for its replicas, for ten seconds if one of them lags or is paused. Kill does not.
//
// # SQL servers
//
// [Postgres] and [MariaDB] start within half a second: the data of a fresh server is made once per machine, kept in
// the cache, and copied. LoseData and Start make it fresh again. Neither waits for the disk, and both keep what they
// have acknowledged when they are killed. If the tests run as root, the servers run as the user nobody, so the folder
// for temp files must be open to others. [PgBouncer] shares few connections to a PostgreSQL server among many clients.
//
// [PostgresServer.Standby] and [MariaDBServer.Replica] start servers that copy another. StopReplication makes one fall
// behind, and Promote makes it a primary with what it has received. With [PostgresServer.Synchronous] and
// [MariaDBServer.SemiSync] the primary acknowledges only what has arrived there.
//
// # ZooKeeper
//
// [ZooKeeper] starts within a second, and a [ZooKeeperEnsemble] of three within two. A node is noticed as silent after
// five seconds: Args("syncLimit=5") makes that five ticks, and a great number makes it long. A dead node is noticed at
// once. In an ensemble that is [Cuttable], [ZooKeeperServer.Isolate] cuts a node off from the others, but not from its
// clients. Until it notices, it answers them, and a follower serves reads of what it had.
//
// # Consul
//
// [Consul] starts within half a second, and a [ConsulCluster] of three within three. Each has a leader when it is
// there, and knows its own nodes, so that sessions can be made. A leader that is killed or paused is replaced within
// three seconds. [ConsulServers.Agent] starts a client agent beside the servers. Every agent serves HTTP on a Unix
// socket too: [ConsulServer.Socket].
//
// # Adding a server
//
// A kind of server is a kind value (server.go): program, number of ports, arguments, and how to ask whether it is
// ready. Its type embeds *[Server]. See redis.go, or postgres.go for one that needs data to start with and another user
// than root. A cluster whose nodes must know each other's ports starts them together: see etcd_cluster.go. One whose
// nodes are told later lets each find its own: see redis_cluster.go. How to install the program goes into need.go, and
// into tools/install-servers.
package servers

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
// If a server is not installed on this machine, the test is skipped, with a message that says what was left out and how
// to install it. With CI=true, or with HOLDFAST_REQUIRE_SERVERS set as `make test` does, the test fails instead: see
// [Need]. Servers are searched for on the PATH, and etcd, Consul and Valkey where `make servers` installs them;
// HOLDFAST_ETCD and HOLDFAST_CONSUL name others. The folders outside of the PATH where Debian installs servers are
// searched too. ZooKeeper is Debian's, or the jar that HOLDFAST_ZOOKEEPER_JAR names.
//
// # Life of a server
//
//  1. Ports are chosen below 32768, where the kernel uses none for outgoing connections, and probed. Another process
//     may use one between the probe and the start. Then the server reports that its address is in use, and it is
//     started again on other ports. On Linux a port is reserved for a test until the test ends, also while its server
//     is stopped: no other test binary uses it.
//  2. The server is ready when it responds on its port and is the process that was started. Another process on that
//     port is never taken for it.
//  3. The output of the server is in the file log of its folder. When the test fails, the end of it is printed and the
//     folder is kept. When the test passes, the folder is removed.
//  4. The server is ended with the test, by its process id. If the test binary is killed, the kernel ends the server
//     (on Linux).
//
// # Faults
//
// A [Server] can be stopped, killed, started again on the same ports with its data or without, paused and continued.
// Each method returns when that has happened. They return errors instead of failing the test: any goroutine may call
// them. A [Clock] changes the time that a server reads. Faults of the network are made by package lab/proxy.
//
// Stop signals a server to end and waits for it. Etcd in turn waits up to six seconds for clients that have streams
// open. Kill takes no time, and what the server has acknowledged is still there after Start.
//
// # Programs
//
// [Outside] starts servers for a program that is not a test, such as the one in bench.
//
// # More than one Redis
//
// [RedisReplicas] are a master and its replicas, which the test promotes. [RedisSentinel] has sentinels that promote,
// and [RedisCluster] is a cluster of masters with a replica each. They start within three seconds, and detect a dead
// master much sooner than is advisable in production. Kill a master and call AwaitFailover; start it again and call
// AwaitHealthy before the next. [RedisServer.Lag] makes a replica fall behind its master.
//
// Each of them, and [Redis], starts Valkey with the option [Valkey].
//
// Stop lets a master wait for its replicas, for ten seconds if one of them lags or is paused. Kill does not.
//
// # SQL servers
//
// [Postgres] and [MariaDB] start within half a second: the data of a fresh server is created once per machine, kept in
// the cache, and copied. LoseData and Start make it fresh again. Neither waits for the disk, and both keep what they
// have acknowledged when they are killed. If the tests run as root, the servers run as the user nobody, so that user
// must be able to read the folder for temporary files. [PgBouncer] shares few connections to a PostgreSQL server among
// many clients.
//
// [PostgresServer.Standby] and [MariaDBServer.Replica] start servers that copy another. StopReplication makes one fall
// behind, and Promote makes it a primary with what it has received. With [PostgresServer.Synchronous] and
// [MariaDBServer.SemiSync] the primary acknowledges only what has arrived there.
//
// # ZooKeeper
//
// [ZooKeeper] starts within a second, and a [ZooKeeperEnsemble] of three within two. A node that does not respond is
// detected after five seconds: Args("syncLimit=5") makes that five ticks. A dead node is detected at once. In an
// ensemble that is [Cuttable], [ZooKeeperServer.Isolate] disconnects a node from the others, but not from its clients.
// Until the node detects that, it responds to them, and a follower serves reads of its old data.
//
// # Consul
//
// [Consul] starts within half a second, and a [ConsulCluster] of three within three. When it is started it has a leader
// and knows its own nodes, so that sessions can be created. A leader that is killed or paused is replaced within three
// seconds. [ConsulServers.Agent] starts a client agent beside the servers. Every agent serves HTTP on a Unix socket
// too: [ConsulServer.Socket].
//
// # Adding a server
//
// A kind of server is a kind value (server.go): program, number of ports, arguments, and a function that checks whether
// it is ready. Its type embeds *[Server]. See redis.go, or postgres.go for a server that needs initial data and a user
// other than root. A cluster whose nodes must know each other's ports at their start starts them together: see
// etcd_cluster.go. A cluster whose nodes learn of each other later lets each choose its own: see redis_cluster.go. Add
// how to install the program to need.go and to tools/install-servers.
package servers

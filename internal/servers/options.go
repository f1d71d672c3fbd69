package servers

import (
	"crypto/rand"
	"time"
)

// An Option changes how a server is started.
type Option func(*settings)

type settings struct {
	program          string // of Redis and what speaks like it; empty: redis-server
	args             []string
	env              []string
	user, password   string // as whom this package logs in, and the nodes of a cluster to each other
	acl              []string
	certificates     *Certificates
	sentinelPassword string
	downAfter        time.Duration // of the sentinels; 0: as soon as tests of failovers want it
	ownTimeouts      bool
	noReplicas       bool
	tick             time.Duration // of ZooKeeper; 0: short
	cuttable         bool
	volatile         bool
}

func settingsOf(options []Option) *settings {
	s := &settings{}
	for _, option := range options {
		option(s)
	}
	if s.acl != nil {
		s.user, s.password = "holdfast-servers", rand.Text()
	}
	return s
}

// Valkey starts Valkey where otherwise Redis would be started.
func Valkey() Option {
	return func(s *settings) { s.program = "valkey-server" }
}

// Args are arguments of the program, such as "--appendfsync", "always". They come last, and so win.
func Args(args ...string) Option {
	return func(s *settings) { s.args = append(s.args, args...) }
}

// Env are environment variables of the server, as NAME=value. See [Clock.Env].
func Env(variables ...string) Option {
	return func(s *settings) { s.env = append(s.env, variables...) }
}

// Password makes the server demand this password, of the default user of Redis, of the user root of etcd and MariaDB,
// or of the user postgres of PostgreSQL. Of Consul, it is the token that may do everything.
func Password(password string) Option {
	return func(s *settings) { s.password = password }
}

// ACL gives a Redis server an ACL file with these lines, such as "user default off". Redis then ignores [Password].
func ACL(lines ...string) Option {
	return func(s *settings) { s.acl = append(s.acl, lines...) }
}

// TLS makes the server speak only TLS on its port. It takes clients without a certificate too. To refuse them, give a
// Redis server Args("--tls-auth-clients", "yes"), etcd Args("--client-cert-auth", "--trusted-ca-file", c.CAFile),
// ZooKeeper Args("ssl.clientAuth=need"), and Consul Args("-hcl", "tls { https { verify_incoming = true } }"). PostgreSQL
// and MariaDB demand certificates by user.
func TLS(c *Certificates) Option {
	return func(s *settings) { s.certificates = c }
}

// SentinelPassword makes the sentinels of [RedisSentinel] demand this password of their clients and of each other.
// [Password] is for the servers that they watch.
func SentinelPassword(password string) Option {
	return func(s *settings) { s.sentinelPassword = password }
}

// DownAfter is how long the sentinels of [RedisSentinel] wait for an answer of a server before it counts as down. It is for
// tests in which nobody is: on a busy machine one that is alive may be silent for a while.
func DownAfter(d time.Duration) Option {
	return func(s *settings) { s.downAfter = d }
}

// OwnTimeouts leaves nodes and sentinels with the timeouts that they come with, for measurements. Otherwise they notice a
// dead node as soon as tests of failovers want it, and look for one as often.
func OwnTimeouts() Option {
	return func(s *settings) { s.ownTimeouts = true }
}

// NoReplicas leaves the masters of [RedisCluster] alone.
func NoReplicas() Option {
	return func(s *settings) { s.noReplicas = true }
}

// Tick is the unit of ZooKeeper's timeouts, 200ms by default. No session is shorter than two of them.
func Tick(d time.Duration) Option {
	return func(s *settings) { s.tick = d }
}

// Cuttable has the nodes of [ZooKeeperEnsemble] and [ConsulCluster] reach each other through proxies, so that one can be
// cut off from the others, or made deaf: see [ZooKeeperServer.Isolate] and [ConsulServers.Depose]. The servers of Consul
// have addresses of their own for that, 127.0.1.1 and so on, which need a system that has all of 127.0.0.0/8.
func Cuttable() Option {
	return func(s *settings) { s.cuttable = true }
}

// Volatile makes [Consul] keep its data in memory. It starts within half a second rather than three, and loses its data
// whenever it ends.
func Volatile() Option {
	return func(s *settings) { s.volatile = true }
}

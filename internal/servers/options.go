package servers

import (
	"crypto/rand"
	"time"
)

// An Option changes how a server is started.
type Option func(*settings)

type settings struct {
	program          string // of Redis and compatible servers; empty: redis-server
	args             []string
	env              []string
	user, password   string // with which this package and the nodes of a cluster log in
	acl              []string
	certificates     *Certificates
	sentinelPassword string
	downAfter        time.Duration // of the sentinels; 0: short, for tests of failovers
	ownTimeouts      bool
	noReplicas       bool
	tick             time.Duration // of ZooKeeper; 0: short
	cuttable         bool
	volatile         bool
}

// settingsOf returns the settings that the options make.
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
func Valkey() Option { return func(s *settings) { s.program = "valkey-server" } }

// Args adds arguments of the program, such as "--appendfsync", "always". They come last, and so override others.
func Args(args ...string) Option { return func(s *settings) { s.args = append(s.args, args...) } }

// Env adds environment variables of the server, as NAME=value. See [Clock.Env].
func Env(variables ...string) Option {
	return func(s *settings) { s.env = append(s.env, variables...) }
}

// Password makes the server require this password, of the default user of Redis, of the user root of etcd and MariaDB,
// or of the user postgres of PostgreSQL. For Consul, it is the token with all privileges.
func Password(password string) Option { return func(s *settings) { s.password = password } }

// ACL gives a Redis server an ACL file with these lines, such as "user default off". Redis then ignores [Password].
func ACL(lines ...string) Option { return func(s *settings) { s.acl = append(s.acl, lines...) } }

// TLS makes the server use only TLS on its port. It accepts clients without a certificate too. To refuse them, give a
// Redis server Args("--tls-auth-clients", "yes"), etcd Args("--client-cert-auth", "--trusted-ca-file", c.CAFile),
// ZooKeeper Args("ssl.clientAuth=need"), and Consul Args("-hcl", "tls { https { verify_incoming = true } }").
// PostgreSQL and MariaDB require certificates by user.
func TLS(c *Certificates) Option { return func(s *settings) { s.certificates = c } }

// SentinelPassword makes the sentinels of [RedisSentinel] require this password of their clients and of each other.
// [Password] is for the servers that they monitor.
func SentinelPassword(password string) Option {
	return func(s *settings) { s.sentinelPassword = password }
}

// DownAfter sets how long the sentinels of [RedisSentinel] wait for a response of a server before it counts as down. It
// is for tests without failovers: on a busy machine a server that is alive may not respond for a while.
func DownAfter(d time.Duration) Option { return func(s *settings) { s.downAfter = d } }

// OwnTimeouts keeps the default timeouts of nodes and sentinels, for measurements. Otherwise they have short ones, for
// tests of failovers.
func OwnTimeouts() Option { return func(s *settings) { s.ownTimeouts = true } }

// NoReplicas makes [RedisCluster] start masters without replicas.
func NoReplicas() Option { return func(s *settings) { s.noReplicas = true } }

// Tick sets the unit of ZooKeeper's timeouts, 200ms by default. No session is shorter than two ticks.
func Tick(d time.Duration) Option { return func(s *settings) { s.tick = d } }

// Cuttable makes the nodes of [ZooKeeperEnsemble] and [ConsulCluster] connect to each other through proxies, so that
// one can be disconnected from the others in both directions or in one: see [ZooKeeperServer.Isolate] and
// [ConsulServers.Depose]. For that, the servers of Consul have addresses of their own, 127.0.1.1 and so on, which need
// a system that has all of 127.0.0.0/8.
func Cuttable() Option { return func(s *settings) { s.cuttable = true } }

// Volatile makes [Consul] keep its data in memory. It starts within half a second rather than three, and loses its data
// whenever it ends.
func Volatile() Option { return func(s *settings) { s.volatile = true } }

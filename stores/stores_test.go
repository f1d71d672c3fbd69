package stores_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redlock"
	_ "github.com/holdfast-go/holdfast/stores"
)

// urls start the server of a store, if it needs one, and return the URL.
var urls = map[string]func(t *testing.T) string{
	"memory":   func(*testing.T) string { return "memory:" },
	"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "locks.db") },
	"redis":    func(t *testing.T) string { return "redis://" + servers.Redis(t).Addr() },
	"valkey":   func(t *testing.T) string { return "valkey://" + servers.Redis(t).Addr() },
	"etcd":     func(t *testing.T) string { return "etcd://" + servers.Etcd(t).Addr() },
	"postgres": func(t *testing.T) string { return servers.Postgres(t).URL("postgres", "", "postgres") },
	"mysql":    func(t *testing.T) string { _, url := mariaDB(t); return url },
	"consul":   func(t *testing.T) string { return "consul://" + servers.Consul(t).Addr() },
	"zk":       func(t *testing.T) string { return zooKeeperURL(servers.ZooKeeper(t), "") },
	"redlock": func(t *testing.T) string {
		return redlockURL(t, "", servers.Redis(t), servers.Redis(t), servers.Redis(t))
	},
}

// TestEveryStoreIsRegistered opens a URL of each store. Ping finds it healthy and leaves nothing, and a lock can be
// acquired.
func TestEveryStoreIsRegistered(t *testing.T) {
	for name, start := range urls {
		t.Run(name, func(t *testing.T) {
			locks, err := holdfast.Open(t.Context(), start(t))
			testkit.Must(t, err)
			testkit.Check(t, locks.Ping(t.Context()))
			if locks.Abilities().Queue {
				for name, err := range locks.Names(t.Context(), "") {
					t.Errorf("after Ping there is %q, %v", name, err)
				}
			}
			lease, err := locks.Mutex("x").Lock(t.Context())
			testkit.Must(t, err)
			testkit.Check(t, lease.Unlock(t.Context()))
			testkit.Check(t, locks.Close())
		})
	}
}

// zooKeeperURL is the URL of a server whose ticks are short. The user may be empty.
func zooKeeperURL(server *servers.ZooKeeperServer, user string) string {
	return "zk://" + user + server.Addr() + "?ttl=2s&tick=200ms"
}

// mariaDB starts a MariaDB server, and returns the URL of a database in it.
func mariaDB(t *testing.T, options ...servers.Option) (server *servers.MariaDBServer, url string) {
	t.Helper()
	server = servers.MariaDB(t, options...)
	_, err := server.DB(t).ExecContext(t.Context(), "CREATE DATABASE locks")
	testkit.Must(t, err)
	url = server.URL("root", "", "locks")
	return server, url
}

// redlockURL is the URL of a deployment of these nodes, which are marked. The user may be empty.
func redlockURL(t *testing.T, user string, nodes ...*servers.RedisServer) string {
	t.Helper()
	var hosts []string
	for _, n := range nodes {
		hosts = append(hosts, n.Addr())
	}
	url := "redlock://" + user + strings.Join(hosts, ",")
	_, err := redlock.Init(t.Context(), url)
	testkit.Must(t, err)
	return url
}

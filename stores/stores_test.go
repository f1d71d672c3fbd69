package stores_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/store"
	_ "github.com/holdfast-go/holdfast/stores"
)

// TestEveryStoreIsRegistered: a URL of each is opened, or fails for another reason than that nobody knows it.
func TestEveryStoreIsRegistered(t *testing.T) {
	redis, etcd, postgres := servers.Redis(t), servers.Etcd(t), servers.Postgres(t)
	_, mariadbURL := mariaDB(t)
	urls := []string{
		"memory:", "sqlite:" + filepath.Join(t.TempDir(), "locks.db"), "redis://" + redis.Addr(), "valkey://" + redis.Addr(),
		"etcd://" + etcd.Addr(), postgres.URL("postgres", "", "postgres"), mariadbURL,
		redlockURL(t, "", servers.Redis(t), servers.Redis(t), servers.Redis(t)),
	}
	for _, url := range urls {
		locks, err := holdfast.Open(t.Context(), url)
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		lease, err := locks.Mutex("x").Lock(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		if err := locks.Close(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
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
	at, err := store.ParseLocation(url)
	if err == nil {
		_, err = redlock.Init(t.Context(), at)
	}
	testkit.Must(t, err)
	return url
}

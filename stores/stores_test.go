package stores_test

import (
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	_ "github.com/holdfast-go/holdfast/stores"
)

// TestEveryStoreIsRegistered: a URL of each is opened, or fails for another reason than that nobody knows it.
func TestEveryStoreIsRegistered(t *testing.T) {
	redis, etcd := servers.Redis(t), servers.Etcd(t)
	for _, url := range []string{"memory:", "sqlite:" + filepath.Join(t.TempDir(), "locks.db"), "redis://" + redis.Addr(), "etcd://" + etcd.Addr()} {
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

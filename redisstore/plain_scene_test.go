package redisstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redisstore"
)

// What tests of plain mode do with a store, and with locks.

// openPlain opens a store in plain mode, with these parameters beside the mode.
func openPlain(t testing.TB, server *servers.RedisServer, query string) *redisstore.Store {
	t.Helper()
	return testkit.Open(t, "redis://"+server.Addr()+"?mode=plain"+query).(*redisstore.Store)
}

// openLocks opens a client in plain mode, whose locks last long unless the options say otherwise.
func openLocks(t testing.TB, server *servers.RedisServer, query string, options ...holdfast.Option) *holdfast.Client {
	t.Helper()
	locks := holdfast.New(openPlain(t, server, query), append([]holdfast.Option{holdfast.WithTTL(long)}, options...)...)
	t.Cleanup(func() { locks.Close() })
	return locks
}

// locking takes a lock meanwhile, and gives the lease when it has it.
func locking(t testing.TB, locks *holdfast.Client, name string) <-chan *holdfast.Lease {
	t.Helper()
	got := make(chan *holdfast.Lease, 1)
	go func() {
		lease, err := locks.Mutex(name).Lock(t.Context())
		testkit.Check(t, err)
		got <- lease
	}()
	return got
}

package etcdstore_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// claim makes a claim of an exclusive lock.
func claim(name string) store.Claim { return testkit.Claim(name, etcdstore.DefaultTTL) }

// tryOpen opens the store at a URL as holdfast.Open does.
func tryOpen(t testing.TB, raw string) (*etcdstore.Store, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), serverPatience)
	defer cancel()
	s, err := store.Open(ctx, testkit.Locate(t, raw))
	if err != nil {
		return nil, err
	}
	return s.(*etcdstore.Store), nil
}

// openAt opens the store at a URL, which must work.
func openAt(t testing.TB, raw string) *etcdstore.Store {
	t.Helper()
	s, err := tryOpen(t, raw)
	testkit.Must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// openError returns why the store at a URL cannot be opened.
func openError(t *testing.T, raw string) error {
	t.Helper()
	s, err := tryOpen(t, raw)
	if err == nil {
		s.Close()
		t.Fatalf("%s: it could be opened", testkit.Locate(t, raw))
	}
	return err
}

// checkFault is testkit.CheckFault for a fault that names a server of this machine.
func checkFault(t *testing.T, err error, final bool, words ...string) {
	t.Helper()
	testkit.CheckFault(t, err, final, append(words, "etcd at 127.0.0.1:")...)
}

// newServer starts a server and opens a store on it, with these parameters.
func newServer(t testing.TB, query string, options ...servers.Option) (*servers.EtcdServer, *etcdstore.Store) {
	t.Helper()
	server := servers.Etcd(t, options...)
	return server, openAt(t, "etcd://"+server.Addr()+query)
}

package etcdstore_test

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/store"
)

// What most tests of this package do with a store.

var lastID atomic.Uint64

// claim makes a claim for everything.
func claim(name string) store.Claim {
	c := store.Claim{
		Name: name, TTL: etcdstore.DefaultTTL, Owner: &store.Owner{Host: "test"},
		Ask: store.Ask{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders},
	}
	binary.BigEndian.PutUint64(c.ID[8:], lastID.Add(1))
	return c
}

// locate takes a URL apart, which must work.
func locate(t testing.TB, raw string) store.Location {
	t.Helper()
	at, err := store.ParseLocation(raw)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// tryOpen opens the store at a URL as holdfast.Open does.
func tryOpen(t testing.TB, raw string) (*etcdstore.Store, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s, err := store.Open(ctx, locate(t, raw))
	if err != nil {
		return nil, err
	}
	return s.(*etcdstore.Store), nil
}

// openAt opens the store at a URL, which must work.
func openAt(t testing.TB, raw string) *etcdstore.Store {
	t.Helper()
	s, err := tryOpen(t, raw)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// newServer starts a server and opens a store on it, with these parameters.
func newServer(t testing.TB, query string, options ...servers.Option) (*servers.EtcdServer, *etcdstore.Store) {
	t.Helper()
	server := servers.Etcd(t, options...)
	return server, openAt(t, "etcd://"+server.Addr()+query)
}

// join joins, demands a state, and notes the ticket.
func join(t testing.TB, s *etcdstore.Store, c *store.Claim, want store.State) store.Standing {
	t.Helper()
	standing, err := s.Join(t.Context(), *c)
	if err != nil || standing.State != want {
		t.Fatalf("Join of %q: %v and %v, want %v", c.Name, standing.State, err, want)
	}
	c.Ticket = standing.Ticket
	return standing
}

// keep keeps one claim and demands a state.
func keep(t testing.TB, s *etcdstore.Store, c store.Claim, want store.State) store.Standing {
	t.Helper()
	standings, err := s.Keep(t.Context(), []store.Claim{c})
	if err != nil || len(standings) != 1 || standings[0].Err != nil || standings[0].State != want {
		t.Fatalf("Keep of %q: %+v and %v, want %v", c.Name, standings, err, want)
	}
	return standings[0]
}

func leave(t testing.TB, s *etcdstore.Store, c store.Claim) {
	t.Helper()
	if err := s.Leave(t.Context(), c); err != nil {
		t.Fatalf("Leave of %q: %v", c.Name, err)
	}
}

// await waits until something is so.
func await(t testing.TB, what string, isSo func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !isSo(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after 30 seconds", what)
		}
	}
}

package redisstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// What tests of plain mode do with a store, and with locks.

// openPlain opens a store in plain mode, with these parameters beside the mode.
func openPlain(t testing.TB, server *servers.RedisServer, query string) *redisstore.Store {
	t.Helper()
	s, err := store.Open(t.Context(), locate(t, "redis://"+server.Addr()+"?mode=plain"+query))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.(*redisstore.Store)
}

// openLocks opens a client in plain mode, whose locks last long unless the options say otherwise.
func openLocks(t testing.TB, server *servers.RedisServer, query string, options ...holdfast.Option) *holdfast.Client {
	t.Helper()
	locks := holdfast.New(openPlain(t, server, query), append([]holdfast.Option{holdfast.TTL(long)}, options...)...)
	t.Cleanup(func() { locks.Close() })
	return locks
}

// lock takes a lock.
func lock(t testing.TB, locks *holdfast.Client, name string, options ...holdfast.Option) *holdfast.Lease {
	t.Helper()
	lease, err := locks.Mutex(name, options...).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// locking takes a lock meanwhile, and gives the lease when it has it.
func locking(t testing.TB, locks *holdfast.Client, name string) <-chan *holdfast.Lease {
	t.Helper()
	got := make(chan *holdfast.Lease, 1)
	go func() {
		lease, err := locks.Mutex(name).Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	return got
}

func unlock(t testing.TB, lease *holdfast.Lease) {
	t.Helper()
	if err := lease.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

// standIn joins, demands a state, and notes the ticket.
func standIn(t testing.TB, s store.Store, c *store.Claim, want store.State) {
	t.Helper()
	standing, err := s.Join(t.Context(), *c)
	if err != nil || standing.State != want {
		t.Fatalf("Join of %q: %v and %v, want %v", c.Name, standing.State, err, want)
	}
	c.Ticket = standing.Ticket
}

// keepOne keeps one claim.
func keepOne(t testing.TB, s store.Store, c store.Claim) store.Standing {
	t.Helper()
	standings, err := s.Keep(t.Context(), []store.Claim{c})
	if err != nil || len(standings) != 1 || standings[0].Err != nil {
		t.Fatalf("Keep of %q: %+v and %v", c.Name, standings, err)
	}
	return standings[0]
}

func leaveOne(t testing.TB, s store.Store, c store.Claim) {
	t.Helper()
	if err := s.Leave(t.Context(), c); err != nil {
		t.Fatalf("Leave of %q: %v", c.Name, err)
	}
}

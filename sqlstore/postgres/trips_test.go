package postgres_test

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sqlstore/postgres"
	"github.com/holdfast-go/holdfast/store"
)

// A counted is a connection that counts its round trips: what is sent after something was received, or first.
type counted struct {
	net.Conn
	trips   *atomic.Int64
	waiting atomic.Bool // something was sent, and nothing received since
}

func (c *counted) Write(p []byte) (int, error) {
	if !c.waiting.Swap(true) {
		c.trips.Add(1)
	}
	return c.Conn.Write(p)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.waiting.Store(false)
	}
	return n, err
}

// TestRoundTrips: to lock is one round trip, to unlock another, and so it is to renew all leases of a client, to detach
// a claim and to attach it.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	var trips atomic.Int64
	s, err := postgres.Open(t.Context(), server.URL("postgres", "", "postgres"),
		postgres.Over(func(conn net.Conn) net.Conn { return &counted{Conn: conn, trips: &trips} }),
		postgres.WithListener("postgres://"+testkit.Nobody(t)+"/?sslmode=disable")) // which has nothing to do with it
	testkit.Must(t, err)
	locks := holdfast.New(s, holdfast.WithTTL(time.Minute))
	defer locks.Close()
	testkit.Unlock(t, testkit.Lock(t, locks, "first")) // connects
	count := func(what string, do func()) {
		t.Helper()
		before := trips.Load()
		do()
		if n := trips.Load() - before; n != 1 {
			t.Errorf("%s: %d round trips", what, n)
		}
	}
	for range 3 {
		var lease *holdfast.Lease
		count("lock", func() { lease = testkit.Lock(t, locks, "x") })
		count("unlock", func() { testkit.Unlock(t, lease) })
	}
	claims := make([]store.Claim, 100)
	for i := range claims {
		claims[i] = testkit.Held(t, s, testkit.Claim(fmt.Sprint("name ", i), time.Minute))
	}
	count("renew 100 leases", func() {
		statuses, err := s.Keep(t.Context(), claims)
		testkit.Must(t, err)
		for i, status := range statuses {
			if status.State != store.Held {
				t.Errorf("claim %d: %v", i, status)
			}
		}
	})
	count("detach", func() { _, err = s.Detach(t.Context(), claims[0], store.ID{1}, time.Minute) })
	testkit.Check(t, err)
	count("attach", func() { _, err = s.Attach(t.Context(), claims[0], store.ID{1}) })
	testkit.Check(t, err)
}

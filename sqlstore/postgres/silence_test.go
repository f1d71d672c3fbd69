package postgres_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/sqlstore/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// A middlebox forgets idle connections, and nobody is told: what is sent on them is swallowed. The lease is renewed on
// a new one, however many of the old ones there are.
func TestIdleConnectionsForgotten(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	t.Run("URL", func(t *testing.T) {
		t.Parallel()
		checkForgotten(t, server, 4*time.Second, 6, func(toward func() string) *sqlstore.Store {
			return openAt(t, urlAt(server.Addr()), postgres.Toward(toward))
		})
	})
	t.Run("sql.DB", func(t *testing.T) {
		t.Parallel()
		const idle = 16
		checkForgotten(t, server, 15*time.Second, idle, func(toward func() string) *sqlstore.Store {
			config, err := pgx.ParseConfig(urlAt(server.Addr()))
			testkit.Must(t, err)
			config.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, toward())
			}
			db := stdlib.OpenDB(*config)
			t.Cleanup(func() { testkit.Check(t, db.Close()) })
			db.SetMaxIdleConns(idle)
			s, err := postgres.New(t.Context(), db)
			testkit.Must(t, err)
			t.Cleanup(func() { testkit.Check(t, s.Close()) })
			return s
		})
	})
}

// checkForgotten demands that a lease outlives so many idle connections that were forgotten.
func checkForgotten(t *testing.T, server *servers.PostgresServer, ttl time.Duration, idle int,
	open func(toward func() string) *sqlstore.Store,
) {
	t.Helper()
	before, after := testkit.Proxy(t, server.Addr()), testkit.Proxy(t, server.Addr())
	var way atomic.Pointer[proxy.Proxy]
	way.Store(before)
	s := open(func() string { return way.Load().Addr() })
	locks := holdfast.New(s, holdfast.WithTTL(ttl))
	defer locks.Close()
	lease := testkit.Lock(t, locks, t.Name())
	busy := before.Hold(proxy.Replies) // so that each call needs a connection of its own
	var calls sync.WaitGroup
	for n := range idle {
		calls.Go(func() {
			_, err := s.Join(t.Context(), testkit.Claim(fmt.Sprint(t.Name(), n), time.Minute))
			testkit.Check(t, err)
		})
	}
	testkit.Await(t, "there are many connections", func() bool { return before.Connections() >= idle })
	busy()
	calls.Wait()

	way.Store(after)
	silenced := time.Now()
	end := before.Silence(proxy.All)
	defer end()
	until := lease.Until()
	for lease.Err() == nil && !lease.Until().After(until.Add(time.Second)) {
		time.Sleep(10 * time.Millisecond) // until it is renewed, or lost
	}
	if err := lease.Err(); err != nil {
		t.Fatalf("after %v: %v", time.Since(silenced), err)
	}
	testkit.Must(t, lease.Unlock(t.Context()))
	if _, err := s.Join(t.Context(), testkit.Claim(t.Name(), time.Minute)); err != nil {
		t.Error(err)
	}
}

package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/sqlstore/postgres"
	"github.com/holdfast-go/holdfast/store"
)

// Servers that only read: a primary that was set so, or that has become a standby.

// A signpost is an address that leads to one server and later to another.
type signpost struct {
	to atomic.Pointer[servers.PostgresServer]
}

func (p *signpost) addr() string { return p.to.Load().Addr() }

// The address of the store that follows a signpost.
const somewhere = "127.0.0.1:1"

// config is that of connections which follow the signpost.
func (p *signpost) config(t testing.TB) *pgx.ConnConfig {
	t.Helper()
	config, err := pgx.ParseConfig(urlAt(somewhere))
	testkit.Must(t, err)
	config.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, p.addr())
	}
	return config
}

// openConfig opens a database, which is closed with the test.
func openConfig(t testing.TB, config *pgx.ConnConfig) *sql.DB {
	t.Helper()
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { testkit.Check(t, db.Close()) })
	return db
}

// setReadOnly has a server refuse to write, also on connections that there are.
func setReadOnly(t testing.TB, server *servers.PostgresServer) {
	t.Helper()
	db := server.DB(t)
	execute(t, db, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
	testkit.Await(t, "the server is read-only", func() bool {
		return column(t, db, "SHOW default_transaction_read_only")[0] == "on"
	})
}

// A server that has begun to refuse writes is left, and its connections with it: those of calls, and the one that
// listens. Its address leads to another server by then.
func TestReadOnlyServerIsLeft(t *testing.T) {
	t.Parallel()
	before, after := servers.Postgres(t), servers.Postgres(t)
	var way signpost
	way.to.Store(before)
	pool, err := pgxpool.NewWithConfig(t.Context(), poolConfig(t, way.config(t)))
	testkit.Must(t, err)
	defer pool.Close()
	overPool, err := postgres.NewPool(t.Context(), pool)
	testkit.Must(t, err)
	defer overPool.Close()
	overDB, err := postgres.New(t.Context(), openConfig(t, way.config(t)))
	testkit.Must(t, err)
	defer overDB.Close()
	stores := map[string]*sqlstore.Store{
		"URL": openAt(t, urlAt(somewhere), postgres.Toward(way.addr)), "sql.DB": overDB, "pgxpool.Pool": overPool,
	}
	held := map[string]store.Claim{}
	for name, s := range stores {
		checkPushed(t, before.DB(t), s)
		held[name] = testkit.Held(t, s, testkit.Claim(name, time.Minute))
	}
	setReadOnly(t, before)
	for name, s := range stores {
		for call, make := range testkit.Calls(s, held[name]) {
			if call == "Names" {
				continue
			}
			var err error
			testkit.Await(t, call+" is refused", func() bool { // each connection hears of the setting for itself
				err = make(t.Context())
				_, fault := errors.AsType[*store.Fault](err)
				return fault
			})
			testkit.CheckFault(t, err, false, "is read-only", somewhere)
		}
	}
	testkit.CheckFault(t, openError(t, urlAt(before.Addr())), false, "is read-only", before.Addr())

	openAt(t, urlAt(after.Addr())) // which creates the tables
	way.to.Store(after)
	for name, s := range stores {
		testkit.Held(t, s, testkit.Claim(name, time.Minute))
		checkPushed(t, after.DB(t), s)
	}
}

// poolConfig is that of a pool, which cannot be made without being parsed.
func poolConfig(t testing.TB, config *pgx.ConnConfig) *pgxpool.Config {
	t.Helper()
	c, err := pgxpool.ParseConfig(urlAt(somewhere))
	testkit.Must(t, err)
	c.ConnConfig = config
	return c
}

// A standby is promoted when its primary is gone. A client that was given both goes on there, and a lease that the
// standby knows of survives.
func TestFailover(t *testing.T) {
	t.Parallel()
	primary := servers.Postgres(t)
	standby := primary.Standby(t)
	testkit.CheckFault(t, openError(t, urlAt(standby.Addr())), false, "is read-only", "standby", standby.Addr())
	s := openAt(t, urlAt(primary.Addr()+","+standby.Addr()))
	locks := holdfast.New(s, holdfast.WithTTL(20*time.Second))
	defer locks.Close()
	lease := testkit.Lock(t, locks, "kept")
	held := testkit.Held(t, s, testkit.Claim("held", time.Minute))
	testkit.Must(t, standby.AwaitCaughtUp())
	testkit.Must(t, primary.Kill())
	_, err := s.Keep(t.Context(), []store.Claim{held})
	testkit.CheckFault(t, err, false, primary.Addr(), standby.Addr())
	_, err = s.Keep(t.Context(), []store.Claim{held})
	testkit.CheckFault(t, err, false, "is read-only", primary.Addr(), standby.Addr())
	testkit.Must(t, standby.Promote())
	testkit.Keep(t, s, held, store.Held)
	checkPushed(t, standby.DB(t), s)
	testkit.Check(t, lease.Err())
	testkit.Unlock(t, lease)
}

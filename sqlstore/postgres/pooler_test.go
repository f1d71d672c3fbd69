package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/sqlstore/postgres"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// Stores behind PgBouncer, which lends a connection for one transaction.

func TestStoreThroughPooler(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		return pooledHarness(t)
	})
}

func pooledHarness(t testing.TB) *harness {
	t.Helper()
	server := servers.Postgres(t)
	address := servers.PgBouncer(t, server).Addr()
	return &harness{server: server, address: address, db: server.DB(t), through: postgres.ThroughWithoutCancel}
}

// A listening harness is one whose clients listen past the pooler.
type listeningHarness struct{ *harness }

func (h *listeningHarness) Open(t testing.TB, prefix string) (store.Store, storetest.Link) {
	t.Helper()
	carrying := func(flow proxy.Flow) proxy.Option { return proxy.Classify(func([]byte) proxy.Flow { return flow }) }
	calls := testkit.Proxy(t, h.address, carrying(proxy.Replies))
	pushes := testkit.Proxy(t, h.server.Addr(), carrying(proxy.Pushes))
	s, err := postgres.Open(t.Context(), urlAt(h.address), postgres.WithPrefix(prefix), h.through(calls.Addr()),
		postgres.WithListener(urlAt(pushes.Addr())))
	testkit.Must(t, err)
	return s, testkit.Links{calls.Link(), pushes.Link()}
}

func TestStoreThroughPoolerListening(t *testing.T) {
	t.Parallel()
	storetest.RunSome(t, func(t testing.TB) storetest.Harness {
		return &listeningHarness{pooledHarness(t)}
	}, "methods", "exclusion", "order", "truth")
}

// Through a pooler a client does not request pushes, which would reach no client, unless it listens elsewhere.
func TestPoolerIsNoticed(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	db := server.DB(t)
	pooler := servers.PgBouncer(t, server)
	blind := openAt(t, pooler.URL("postgres"))
	testkit.Held(t, blind, testkit.Claim("held", time.Minute))
	waiter := testkit.Waiting(t, blind, testkit.Claim("held", time.Minute))
	testkit.Await(t, "it no longer asks for pushes", func() bool {
		testkit.Keep(t, blind, waiter, store.Waiting)
		return column(t, db, "SELECT inbox FROM holdfast.claims WHERE state = 'waiting'")[0] == ""
	})
	if n := column(t, db, "SELECT query FROM pg_stat_activity WHERE query LIKE 'LISTEN %'"); len(n) > 0 {
		t.Errorf("connections of the pooler listen: %q", n)
	}
	checkPushed(t, db, openAt(t, pooler.URL("postgres")+"&listen="+urlAt(server.Addr())))
}

// No statement outlives its transaction, whatever a program has as its default: the next transaction has another
// connection, and other clients have this one.
func TestNothingIsPrepared(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	pooler := servers.PgBouncer(t, server, servers.Args("default_pool_size = 2"))
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec,
		pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			config, err := pgx.ParseConfig(pooler.URL("postgres"))
			testkit.Must(t, err)
			config.DefaultQueryExecMode = mode
			db := openConfig(t, config)
			var programs sync.WaitGroup
			for n := range 4 {
				programs.Go(func() {
					s, err := postgres.New(t.Context(), db)
					if err != nil {
						t.Error(err)
						return
					}
					defer s.Close()
					c := testkit.Claim(fmt.Sprint(n), time.Minute)
					calls := testkit.Calls(s, c)
					for _, name := range []string{"Join", "Keep", "Line", "Names", "Leave"} {
						testkit.Check(t, calls[name](t.Context()))
					}
					if err := calls["Break"](t.Context()); !errors.Is(err, store.ErrNotHeld) {
						t.Errorf("Break: %v, want %v", err, store.ErrNotHeld)
					}
				})
			}
			programs.Wait()
			simple, err := sql.Open("pgx", pooler.URL("postgres")+"&default_query_exec_mode=simple_protocol")
			testkit.Must(t, err)
			defer simple.Close()
			for range 4 { // whichever connection it is
				if left := column(t, simple, "SELECT statement FROM pg_prepared_statements"); len(left) > 0 {
					t.Errorf("prepared: %q", left)
				}
			}
		})
	}
}

// A pooler that is restarted, and one that has no connection to lend for a while, cost calls and no lease.
func TestPoolerRestarts(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	pooler := servers.PgBouncer(t, server)
	locks := holdfast.New(openAt(t, pooler.URL("postgres")), holdfast.WithTTL(20*time.Second))
	defer locks.Close()
	lease := testkit.Lock(t, locks, "kept")
	testkit.Must(t, pooler.Kill())
	testkit.Must(t, pooler.Start())
	until := lease.Until()
	var turns testkit.Turns
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
		testkit.Check(t, locks.Mutex("other").Do(ctx, turns.Take))
		cancel()
	}
	testkit.Await(t, "the lease is renewed", func() bool { return lease.Until().After(until) || lease.Err() != nil })
	testkit.Check(t, lease.Err())
}

package postgres_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

// Stores over a database or a pool that the program has, and over connections of their own.

// poolSize is how many connections the program's pool has.
const poolSize = 2

// A given is a pool of the program, and the store over it.
type given struct {
	name string
	open func(t *testing.T, url string) (s *sqlstore.Store, take func(context.Context) (release func(), err error))
}

var pools = []given{
	{"sql.DB", func(t *testing.T, url string) (*sqlstore.Store, func(context.Context) (func(), error)) {
		t.Helper()
		db, err := sql.Open("pgx", url)
		testkit.Must(t, err)
		t.Cleanup(func() { testkit.Check(t, db.Close()) })
		db.SetMaxOpenConns(poolSize)
		s, err := postgres.New(t.Context(), db)
		testkit.Must(t, err)
		t.Cleanup(func() { testkit.Check(t, s.Close()) })
		return s, func(ctx context.Context) (func(), error) {
			conn, err := db.Conn(ctx)
			return func() { conn.Close() }, err
		}
	}},
	{"pgxpool.Pool", func(t *testing.T, url string) (*sqlstore.Store, func(context.Context) (func(), error)) {
		t.Helper()
		config, err := pgxpool.ParseConfig(url)
		testkit.Must(t, err)
		config.MaxConns = poolSize
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		testkit.Must(t, err)
		t.Cleanup(pool.Close)
		s, err := postgres.NewPool(t.Context(), pool)
		testkit.Must(t, err)
		t.Cleanup(func() { testkit.Check(t, s.Close()) })
		return s, func(ctx context.Context) (func(), error) {
			conn, err := pool.Acquire(ctx)
			if err != nil {
				return nil, err
			}
			return conn.Release, nil
		}
	}},
}

// Everything works over what the program has, pushes too, and it is the program's afterwards.
func TestGivenPools(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	db := server.DB(t)
	for _, g := range pools {
		t.Run(g.name, func(t *testing.T) { // one after the other: CheckWorks has a name of its own
			s, take := g.open(t, server.URL("postgres", "", "postgres"))
			checkPushed(t, db, s)
			testkit.CheckWorks(t, s)
			testkit.Must(t, s.Close())
			release, err := take(t.Context())
			testkit.Must(t, err)
			release()
		})
	}
	t.Run("URL", func(t *testing.T) {
		s := openAt(t, server.URL("postgres", "", "postgres"))
		checkPushed(t, db, s)
		testkit.CheckWorks(t, s)
	})
}

// A wrapped is a connector of pgx whose connections are a tracer's, say, and which still names pgx as its driver.
type wrapped struct{ driver.Connector }

func (w wrapped) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := w.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return struct{ *stdlib.Conn }{conn.(*stdlib.Conn)}, nil
}

// A database whose driver wraps that of pgx works as with another driver, without pushes.
func TestWrappedDriver(t *testing.T) {
	t.Parallel()
	config, err := pgx.ParseConfig(servers.Postgres(t).URL("postgres", "", "postgres"))
	testkit.Must(t, err)
	db := sql.OpenDB(wrapped{stdlib.GetConnector(*config)})
	defer db.Close()
	s, err := postgres.New(t.Context(), db)
	testkit.Must(t, err)
	defer s.Close()
	held := testkit.Held(t, s, testkit.Claim("wrapped", time.Minute))
	testkit.Keep(t, s, held, store.Held)
	testkit.Leave(t, s, held)
}

// checkPushed demands that the store receives what is sent to it with NOTIFY.
func checkPushed(t *testing.T, db *sql.DB, s store.Store) {
	t.Helper()
	told := testkit.Listen(s)
	held := testkit.Held(t, s, testkit.Claim("pushed "+t.Name(), time.Minute)) // which nobody looks out for
	waiter := testkit.Waiting(t, s, testkit.Claim("pushed "+t.Name(), time.Minute))
	testkit.Await(t, "a push arrives", func() bool {
		_, err := db.Exec(`SELECT pg_notify('holdfast_' || inbox, 'gone ' || id || ' ' || ticket) FROM holdfast.claims
			WHERE id = $1`, held.ID.String())
		testkit.Must(t, err)
		for {
			select {
			case id := <-told:
				if id == held.ID {
					return true
				}
			default:
				return false
			}
		}
	})
	testkit.Leave(t, s, waiter)
	testkit.Leave(t, s, held)
}

// failedRenewals is an observer that passes on errors of renewals.
type failedRenewals struct {
	holdfast.NopObserver
	errs chan error
}

func (f failedRenewals) Renewed(_ string, _ int, _ time.Duration, err error) {
	if err != nil {
		select {
		case f.errs <- err:
		default:
		}
	}
}

// While the program has all connections of its pool, calls say so. A lease survives it if it takes less than the ttl,
// and a caller that waits goes on when connections are free.
func TestPoolUsedUp(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	for _, g := range pools {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			s, take := g.open(t, server.URL("postgres", "", "postgres"))
			failed := failedRenewals{errs: make(chan error, 1)}
			locks := holdfast.New(s, holdfast.WithTTL(20*time.Second), holdfast.WithObserver(failed))
			defer locks.Close()
			lease := testkit.Lock(t, locks, g.name+" held")
			var releases []func()
			for range poolSize {
				release, err := take(t.Context())
				testkit.Must(t, err)
				releases = append(releases, release)
			}
			_, err := s.Join(t.Context(), testkit.Claim(g.name, 300*time.Millisecond))
			testkit.CheckFault(t, err, false, "all connections of the program's pool are in use", server.Addr())
			if !store.Busy(err) {
				t.Errorf("%v: it is not busy", err)
			}
			acquired := make(chan error, 1)
			go func() {
				lease, err := locks.Mutex(g.name + " waited for").Lock(t.Context())
				if err == nil {
					err = lease.Unlock(t.Context())
				}
				acquired <- err
			}()
			select {
			case <-failed.errs:
			case <-time.After(testkit.Patience):
				t.Error("no renewal has failed")
			}
			for _, release := range releases {
				release()
			}
			testkit.Must(t, <-acquired)
			until := lease.Until()
			testkit.Await(t, "the lease is renewed",
				func() bool { return lease.Until().After(until) || lease.Err() != nil })
			testkit.Check(t, lease.Err())
		})
	}
}

// A server that does not respond is not taken for a pool that is used up, however many calls wait for it: a caller that
// waits would never learn of it.
func TestSilentServerIsNotBusy(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	stores := map[string]*sqlstore.Store{"URL": openAt(t, server.URL("postgres", "", "postgres"))}
	for _, g := range pools {
		stores[g.name], _ = g.open(t, server.URL("postgres", "", "postgres"))
	}
	testkit.Must(t, server.Pause())
	var calls sync.WaitGroup
	for name, s := range stores {
		for n := range 20 {
			calls.Go(func() {
				_, err := s.Join(t.Context(), testkit.Claim(fmt.Sprint(name, n), 500*time.Millisecond))
				testkit.CheckFault(t, err, false, server.Addr())
				if store.Busy(err) {
					t.Errorf("%s: %v, which is busy", name, err)
				}
			})
		}
	}
	calls.Wait()
	testkit.Must(t, server.Continue())
	for _, s := range stores {
		testkit.Await(t, "it works again", func() bool {
			_, err := s.Queue(t.Context(), "any")
			return err == nil
		})
	}
}

// bySocket returns an operator's client, which needs no password.
func bySocket(t *testing.T, server *servers.PostgresServer) *sql.DB {
	t.Helper()
	const form = "postgres:///postgres?user=postgres&host=%s&port=%d"
	db, err := sql.Open("pgx", fmt.Sprintf(form, server.Socket(), server.Port()))
	testkit.Must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// Credentials that change are used by each new connection: those of a callback, and those of a file. A password that is
// refused may be followed by one that is not.
func TestCredentialsChange(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.Password("first"))
	db := bySocket(t, server)
	execute(t, db, "CREATE USER app SUPERUSER PASSWORD 'first'")
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) { testkit.Must(t, os.WriteFile(file, []byte(password+"\n"), 0o600)) }
	write("first")
	byFile := openAt(t, server.URL("app", "", "postgres")+"&password-file="+file)
	byCallback := openAt(t, server.URL("nobody", "", "postgres"),
		postgres.WithCredentials(func(context.Context) (user, password string, err error) {
			text, err := os.ReadFile(file)
			return "app", strings.TrimSpace(string(text)), err
		}))
	stores := map[string]*sqlstore.Store{"file": byFile, "callback": byCallback}
	held := map[string]store.Claim{}
	for name, s := range stores {
		held[name] = testkit.Held(t, s, testkit.Claim(name, time.Minute))
	}
	write(testkit.Secret)
	terminate := func() {
		execute(t, db, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = "+
			"'app'")
	}
	terminate()
	for name, s := range stores {
		testkit.Await(t, "it is refused", func() bool {
			_, err := s.Keep(t.Context(), []store.Claim{held[name]})
			if err == nil {
				return false
			}
			testkit.CheckFault(t, err, false, server.Addr())
			return strings.Contains(err.Error(), "28P01")
		})
	}
	execute(t, db, "ALTER USER app PASSWORD '"+testkit.Secret+"'")
	for name, s := range stores {
		testkit.Keep(t, s, held[name], store.Held)
		testkit.CheckWorks(t, s)
	}
	testkit.Must(t, os.Remove(file))
	terminate()
	testkit.Await(t, "the file is missed", func() bool {
		_, err := byFile.Keep(t.Context(), []store.Claim{held["file"]})
		if err != nil {
			testkit.CheckFault(t, err, false, server.Addr())
		}
		return err != nil && strings.Contains(err.Error(), "the password file cannot be read")
	})
}

// The connection that listens logs in with the credentials of the moment, also beside a pool that the program has.
func TestListenerCredentials(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.Password("first"))
	db := bySocket(t, server)
	execute(t, db, "CREATE USER app SUPERUSER PASSWORD 'first'")
	credentials := postgres.WithCredentials(func(context.Context) (user, password string, err error) {
		return "", "second", nil
	})
	url := server.URL("app", "first", "postgres")
	mine, err := sql.Open("pgx", url)
	testkit.Must(t, err)
	defer mine.Close()
	mine.SetMaxOpenConns(1) // another would log in with the first password
	overDB, err := postgres.New(t.Context(), mine, credentials)
	testkit.Must(t, err)
	defer overDB.Close()
	pool, err := pgxpool.New(t.Context(), url+"&pool_max_conns=1")
	testkit.Must(t, err)
	defer pool.Close()
	overPool, err := postgres.NewPool(t.Context(), pool, credentials)
	testkit.Must(t, err)
	defer overPool.Close()
	execute(t, db, "ALTER USER app PASSWORD 'second'")
	checkPushed(t, db, overDB)
	checkPushed(t, db, overPool)
}

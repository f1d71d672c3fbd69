package gooselock_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/gooselock"
	"github.com/holdfast-go/holdfast/internal/leaks"
	"github.com/holdfast-go/holdfast/memstore"
	_ "github.com/holdfast-go/holdfast/sqlstore/sqlite"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// patience is how long something may take that must happen, on a busy machine.
const patience = 30 * time.Second

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// await returns once isSo reports true, or after patience.
func await(isSo func() bool) {
	for deadline := time.Now().Add(patience); !isSo() && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
}

// A site is a database of which replicas migrate the schema. Its migrations are not idempotent: each adds a row to the
// ledger.
type site struct {
	*testing.T
	file string
	db   *sql.DB
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, file: filepath.Join(t.TempDir(), "data.db")}
	s.db = s.open()
	_, err := s.db.ExecContext(t.Context(), "CREATE TABLE ledger (entry INTEGER)")
	must(t, err)
	return s
}

// open returns a connection pool of one replica.
func (s *site) open() *sql.DB {
	s.Helper()
	db, err := sql.Open("sqlite", "file:"+s.file+"?_pragma=busy_timeout(30000)")
	must(s, err)
	s.Cleanup(func() { db.Close() })
	return db
}

// replica returns the provider of one replica, with three migrations. Before each has written its row, it calls hook.
func (s *site) replica(hook func(context.Context) error) *goose.Provider {
	s.Helper()
	var all []*goose.Migration
	for version := int64(1); version <= 3; version++ {
		up := &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			if hook != nil {
				if err := hook(ctx); err != nil {
					return err
				}
			}
			_, err := tx.ExecContext(ctx, "INSERT INTO ledger VALUES (?)", version)
			return err
		}}
		down := &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "DELETE FROM ledger WHERE entry = ?", version)
			return err
		}}
		all = append(all, goose.NewGoMigration(version, up, down))
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, s.open(), nil, goose.WithGoMigrations(all...),
		goose.WithDisableGlobalRegistry(true))
	must(s, err)
	return provider
}

// ledger returns how often each migration was applied.
func (s *site) ledger() map[int]int {
	s.Helper()
	rows, err := s.db.QueryContext(context.Background(), "SELECT entry, count(*) FROM ledger GROUP BY entry")
	must(s, err)
	defer rows.Close()
	applied := map[int]int{}
	for rows.Next() {
		var entry, times int
		must(s, rows.Scan(&entry, &times))
		applied[entry] = times
	}
	must(s, rows.Err())
	return applied
}

// want checks that the first n migrations were applied, each once.
func (s *site) want(what string, n int) {
	s.Helper()
	applied := s.ledger()
	for i := 1; i <= n; i++ {
		if applied[i] != 1 {
			s.Errorf("%s: migration %d was applied %d times", what, i, applied[i])
		}
	}
	version, err := s.replica(nil).GetDBVersion(s.Context())
	if err != nil || int(version) != n || len(applied) != n {
		s.Errorf("%s: applied %v, version %d, %v, want %d", what, applied, version, err, n)
	}
}

// TestReplicasStartAtOnce: four replicas migrate one SQLite file. The first is under way until all others wait.
func TestReplicasStartAtOnce(t *testing.T) {
	const replicas = 4
	s := newSite(t)
	url := "sqlite:" + filepath.Join(t.TempDir(), "locks.db")
	type result struct {
		applied int
		err     error
	}
	results := make(chan result, replicas)
	for range replicas {
		locks, err := holdfast.Open(t.Context(), url)
		must(t, err)
		t.Cleanup(func() { locks.Close() })
		provider := gooselock.New(s.replica(func(context.Context) error {
			await(func() bool {
				queue, err := locks.Inspect(t.Context(), "migrations")
				return err == nil && len(queue.Waiters()) == replicas-1
			})
			return nil
		}), locks.Mutex("migrations"))
		go func() {
			applied, err := provider.Up(t.Context())
			results <- result{len(applied), err}
		}()
	}
	applied := 0
	for range replicas {
		r := <-results
		applied += r.applied
		if r.err != nil || r.applied != 0 && r.applied != 3 {
			t.Error(r.applied, r.err)
		}
	}
	if applied != 3 {
		t.Errorf("%d migrations were applied", applied)
	}
	s.want("all", 3)
}

// TestWithoutTheLock is the control: two replicas with goose alone have found a migration pending before either has
// applied it. Both apply it, and report no error.
func TestWithoutTheLock(t *testing.T) {
	s := newSite(t)
	_, err := s.replica(nil).HasPending(t.Context()) // creates goose's table
	must(t, err)
	var both sync.WaitGroup
	both.Add(2)
	results := make(chan error, 2)
	for range 2 {
		provider := s.replica(func() func(context.Context) error {
			meet := sync.OnceFunc(func() { both.Done(); both.Wait() })
			return func(context.Context) error { meet(); return nil }
		}())
		go func() {
			_, err := provider.UpTo(t.Context(), 1)
			results <- err
		}()
	}
	err = errors.Join(<-results, <-results)
	if times := s.ledger()[1]; times != 2 || err != nil {
		t.Errorf("the migration was applied %d times, %v: if it is 1, goose has a lock; change the doc", times, err)
	}
}

// TestLost: the lock is lost while the second of three migrations runs. That one is rolled back, and no other begins.
func TestLost(t *testing.T) {
	s := newSite(t)
	server := memstore.NewServer()
	locks := holdfast.New(server.Connect())
	defer locks.Close()
	begun := 0
	provider := gooselock.New(s.replica(func(ctx context.Context) error {
		if _, ok := holdfast.TokenFrom(ctx); !ok {
			t.Error("there is no token")
		}
		if begun++; begun == 2 {
			server.Revoke("migrations")
			<-ctx.Done()
		}
		return nil
	}), locks.Mutex("migrations"))
	_, err := provider.Up(t.Context())
	partial, ok := errors.AsType[*goose.PartialError](err)
	if !ok || len(partial.Applied) != 1 || !errors.Is(err, holdfast.ErrLost) || begun != 2 {
		t.Errorf("%d have begun: %v", begun, err)
	}
	s.want("after the loss", 1)

	next := holdfast.New(server.Connect())
	defer next.Close()
	if applied, err := gooselock.New(s.replica(nil), next.Mutex("migrations")).Up(t.Context()); err != nil ||
		len(applied) != 2 {
		t.Error(applied, err)
	}
	s.want("after the next", 3)
}

// TestMethods: each method that changes the database waits for the lock, and releases it.
func TestMethods(t *testing.T) {
	s := newSite(t)
	server := memstore.NewServer()
	locks, elsewhere := holdfast.New(server.Connect()), holdfast.New(server.Connect())
	defer locks.Close()
	defer elsewhere.Close()
	p := gooselock.New(s.replica(nil), locks.Mutex("migrations"))
	for _, step := range []struct {
		name    string
		do      func(ctx context.Context) error
		version int
	}{
		{"UpByOne", func(ctx context.Context) error { _, err := p.UpByOne(ctx); return err }, 1},
		{"UpTo", func(ctx context.Context) error { _, err := p.UpTo(ctx, 2); return err }, 2},
		{"ApplyVersion", func(ctx context.Context) error { _, err := p.ApplyVersion(ctx, 3, true); return err }, 3},
		{"Down", func(ctx context.Context) error { _, err := p.Down(ctx); return err }, 2},
		{"DownTo", func(ctx context.Context) error { _, err := p.DownTo(ctx, 0); return err }, 0},
		{"Up", func(ctx context.Context) error { _, err := p.Up(ctx); return err }, 3},
	} {
		lease, err := elsewhere.Mutex("migrations").Lock(t.Context())
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := step.do(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, holdfast.ErrLocked) {
			t.Errorf("%s while the lock is held elsewhere: %v", step.name, err)
		}
		cancel()
		must(t, lease.Unlock(t.Context()))
		if err := step.do(t.Context()); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		s.want(step.name, step.version)
	}
}

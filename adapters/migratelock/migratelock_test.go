package migratelock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/migratelock"
	"github.com/holdfast-go/holdfast/memstore"
	_ "github.com/holdfast-go/holdfast/sqlstore/sqlite"
)

// TestMain fails if goroutines are left behind, other than those in which golang-migrate reads migrations ahead: when a
// run ends with an error, they wait for ever to deliver what they have read.
func TestMain(m *testing.M) {
	code := m.Run()
	readAhead := goleak.IgnoreAnyFunction("github.com/golang-migrate/migrate/v4.(*Migration).Buffer")
	var left error
	await(func() bool { left = goleak.Find(readAhead); return left == nil })
	if left != nil && code == 0 {
		fmt.Fprintln(os.Stderr, left)
		code = 1
	}
	os.Exit(code)
}

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

// migrations returns migrations that are not idempotent: each adds a row to the ledger.
func migrations(n int) fs.FS {
	files := fstest.MapFS{}
	for i := 1; i <= n; i++ {
		files[fmt.Sprintf("%d_add.up.sql", i)] = &fstest.MapFile{
			Data: fmt.Appendf(nil, "INSERT INTO ledger VALUES (%d)", i),
		}
		files[fmt.Sprintf("%d_add.down.sql", i)] = &fstest.MapFile{
			Data: fmt.Appendf(nil, "DELETE FROM ledger WHERE entry = %d", i),
		}
	}
	return files
}

// A hooked driver is the real one, and calls functions of the test.
type hooked struct {
	database.Driver
	version func() // after the version was read
	run     func() // before a migration runs
}

func (h *hooked) Version() (version int, dirty bool, err error) {
	version, dirty, err = h.Driver.Version()
	if h.version != nil {
		h.version()
	}
	return version, dirty, err
}

func (h *hooked) Run(migration io.Reader) error {
	if h.run != nil {
		h.run()
	}
	return h.Driver.Run(migration)
}

// A site is a database of which replicas migrate the schema.
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

// drivers returns the drivers of one replica, for n migrations.
func (s *site) drivers(n int) (source.Driver, *hooked) {
	s.Helper()
	files, err := iofs.New(migrations(n), ".")
	must(s, err)
	driver, err := sqlite.WithInstance(s.open(), &sqlite.Config{})
	must(s, err)
	return files, &hooked{Driver: driver}
}

// replica returns a Migrate of one replica, with n migrations.
func (s *site) replica(ctx context.Context, mutex *holdfast.Mutex, n int, hook func(*hooked)) *migrate.Migrate {
	s.Helper()
	files, driver := s.drivers(n)
	if hook != nil {
		hook(driver)
	}
	m, err := migratelock.New(ctx, mutex, "iofs", files, "sqlite", driver)
	must(s, err)
	return m
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

// want checks which migrations were applied, each once, and that the database is not dirty.
func (s *site) want(m *migrate.Migrate, n int) {
	s.Helper()
	applied := s.ledger()
	for i := 1; i <= n; i++ {
		if applied[i] != 1 {
			s.Errorf("migration %d was applied %d times", i, applied[i])
		}
	}
	if version, dirty, err := m.Version(); len(applied) != n || err != nil || int(version) != n || dirty {
		s.Errorf("applied %v, version %d, dirty %v, %v, want %d", applied, version, dirty, err, n)
	}
}

// TestReplicasStartAtOnce: four replicas migrate one SQLite file. The first is under way until all others wait.
func TestReplicasStartAtOnce(t *testing.T) {
	const replicas = 4
	s := newSite(t)
	url := "sqlite:" + filepath.Join(t.TempDir(), "locks.db")
	results := make(chan error, replicas)
	var last *migrate.Migrate
	for range replicas {
		locks, err := holdfast.Open(t.Context(), url)
		must(t, err)
		t.Cleanup(func() { locks.Close() })
		m := s.replica(t.Context(), locks.Mutex("migrations"), 3, func(h *hooked) {
			h.run = func() {
				await(func() bool {
					queue, err := locks.Inspect(t.Context(), "migrations")
					return err == nil && len(queue.Waiters()) == replicas-1
				})
			}
		})
		last = m
		go func() { results <- m.Up() }()
	}
	migrated := 0
	for range replicas {
		switch err := <-results; {
		case err == nil:
			migrated++
		case !errors.Is(err, migrate.ErrNoChange):
			t.Error(err)
		}
	}
	if migrated != 1 {
		t.Errorf("%d replicas have migrated", migrated)
	}
	s.want(last, 3)
}

// TestWithoutTheLock is the control: two replicas with the driver alone read the version before either has written it.
// Both apply the migration, and report no error.
func TestWithoutTheLock(t *testing.T) {
	s := newSite(t)
	var both sync.WaitGroup
	both.Add(2)
	results := make(chan error, 2)
	for range 2 {
		files, driver := s.drivers(1)
		driver.version = sync.OnceFunc(func() { both.Done(); both.Wait() })
		m, err := migrate.NewWithInstance("iofs", files, "sqlite", driver)
		must(t, err)
		go func() { results <- m.Up() }()
	}
	if err := errors.Join(<-results, <-results); err != nil {
		t.Error(err)
	}
	if times := s.ledger()[1]; times != 2 {
		t.Errorf("the migration was applied %d times: if it is 1, the driver has a lock, and the doc is wrong", times)
	}
}

// lossSeen closes a channel when a lease is lost.
type lossSeen struct {
	holdfast.NopObserver
	lost chan struct{}
}

func (l *lossSeen) Holding(ctx context.Context, _ holdfast.Request, _ holdfast.Token) (context.Context, func(error)) {
	return ctx, func(why error) {
		if errors.Is(why, holdfast.ErrLost) {
			close(l.lost)
		}
	}
}

// TestLost: the lock is lost while the first of three migrations runs. That one is completed, and no other begins.
func TestLost(t *testing.T) {
	s := newSite(t)
	server := memstore.NewServer()
	seen := &lossSeen{lost: make(chan struct{})}
	locks := holdfast.New(server.Connect(), holdfast.WithObserver(seen))
	defer locks.Close()
	m := s.replica(t.Context(), locks.Mutex("migrations"), 3, func(h *hooked) {
		h.run = func() { server.Revoke("migrations"); <-seen.lost }
	})
	if err := m.Up(); !errors.Is(err, holdfast.ErrLost) {
		t.Error(err)
	}
	s.want(m, 1)

	next := holdfast.New(server.Connect())
	defer next.Close()
	m = s.replica(t.Context(), next.Mutex("migrations"), 3, nil)
	must(t, m.Up())
	s.want(m, 3)
}

// TestContextEnds: while a replica waits, and while it migrates.
func TestContextEnds(t *testing.T) {
	s := newSite(t)
	server := memstore.NewServer()
	locks, elsewhere := holdfast.New(server.Connect()), holdfast.New(server.Connect())
	defer locks.Close()
	defer elsewhere.Close()
	lease, err := elsewhere.Mutex("migrations").Lock(t.Context())
	must(t, err)
	waiting, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	m := s.replica(waiting, locks.Mutex("migrations"), 3, nil)
	go func() { result <- m.Up() }()
	await(func() bool {
		queue, err := elsewhere.Inspect(t.Context(), "migrations")
		return err == nil && len(queue.Waiters()) == 1
	})
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if applied := s.ledger(); len(applied) > 0 {
		t.Error(applied)
	}

	// A LockTimeout that is set bounds the wait, and leaves no claim behind.
	m = s.replica(t.Context(), locks.Mutex("migrations"), 3, nil)
	m.LockTimeout = 50 * time.Millisecond
	if err := m.Up(); !errors.Is(err, holdfast.ErrLocked) && !errors.Is(err, migrate.ErrLockTimeout) {
		t.Error(err)
	}
	must(t, lease.Unlock(t.Context()))

	migrating, cancel := context.WithCancel(t.Context())
	m = s.replica(migrating, locks.Mutex("migrations"), 3, func(h *hooked) { h.run = cancel })
	if err := m.Up(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	s.want(m, 1)
	lease, err = elsewhere.Mutex("migrations", holdfast.WithWait(patience)).Lock(t.Context())
	must(t, err)
	must(t, lease.Unlock(t.Context()))
}

// TestOtherMethods: each of Migrate's methods that changes the database holds the lock, and releases it.
func TestOtherMethods(t *testing.T) {
	s := newSite(t)
	locks := holdfast.New(memstore.New())
	defer locks.Close()
	m := s.replica(t.Context(), locks.Mutex("migrations"), 3, nil)
	for _, step := range []struct {
		name    string
		do      func() error
		version uint
		err     error
	}{
		{"Steps", func() error { return m.Steps(2) }, 2, nil},
		{"Migrate", func() error { return m.Migrate(3) }, 3, nil},
		{"Up", m.Up, 3, migrate.ErrNoChange},
		{"Steps back", func() error { return m.Steps(-1) }, 2, nil},
		{"Force", func() error { return m.Force(1) }, 1, nil},
		{"Down", m.Down, 0, nil},
		{"Drop", m.Drop, 0, nil},
	} {
		if err := step.do(); !errors.Is(err, step.err) {
			t.Errorf("%s: %v", step.name, err)
		}
		if version, dirty, err := m.Version(); version != step.version || dirty ||
			(err != nil) != (step.version == 0) {
			t.Errorf("after %s: version %d, dirty %v, %v", step.name, version, dirty, err)
		}
		queue, err := locks.Inspect(t.Context(), "migrations")
		if err != nil || len(queue.Entries) > 0 {
			t.Errorf("after %s: %v, %v", step.name, queue, err)
		}
	}
}

// TestRefused: what New refuses.
func TestRefused(t *testing.T) {
	s := newSite(t)
	locks := holdfast.New(memstore.New())
	defer locks.Close()
	files, driver := s.drivers(1)
	mutex := locks.Mutex("migrations")
	var none context.Context
	_, noContext := migratelock.New(none, mutex, "iofs", files, "sqlite", driver)
	_, noMutex := migratelock.New(t.Context(), nil, "iofs", files, "sqlite", driver)
	_, noSource := migratelock.New(t.Context(), mutex, "iofs", nil, "sqlite", driver)
	_, noDatabase := migratelock.New(t.Context(), mutex, "iofs", files, "sqlite", nil)
	if !errors.Is(noContext, holdfast.ErrNilContext) {
		t.Error(noContext)
	}
	for _, err := range []error{noMutex, noSource, noDatabase} {
		if !errors.Is(err, holdfast.ErrBadOption) {
			t.Error(err)
		}
	}
}

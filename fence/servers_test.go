package fence_test

import (
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// schemas counts those that were made, to name them.
var schemas atomic.Int64

// siteOf makes schemas at a server, which MariaDB also calls databases, each with a name of its own.
func siteOf(admin *sql.DB, driver string, dialect fence.Dialect, source func(schema string) string) site {
	return func(t *testing.T, statements ...string) (*sql.DB, fence.Table) {
		t.Helper()
		name := fmt.Sprint("test", schemas.Add(1))
		_, err := admin.ExecContext(t.Context(), "CREATE SCHEMA "+name)
		testkit.Must(t, err)
		db, err := sql.Open(driver, source(name))
		testkit.Must(t, err)
		t.Cleanup(func() { db.Close() })
		fences := fence.Table{Dialect: dialect}
		testkit.Must(t, fences.Create(t.Context(), db))
		for _, s := range statements {
			_, err := db.ExecContext(t.Context(), s)
			testkit.Must(t, err)
		}
		return db, fences
	}
}

// TestPostgreSQL is what a fence promises, on a real server.
func TestPostgreSQL(t *testing.T) {
	server := servers.Postgres(t)
	onServer(t, siteOf(server.DB(t), "pgx", fence.PostgreSQL, func(schema string) string {
		return server.URL("postgres", "", "postgres") + "&search_path=" + schema
	}))
}

// TestMariaDB is what a fence promises, on a real server, whichever rows its driver counts as affected.
func TestMariaDB(t *testing.T) {
	server := servers.MariaDB(t)
	for name, parameters := range map[string]string{
		"counts changed rows": "",
		"counts found rows":   "?clientFoundRows=true&interpolateParams=true",
	} {
		t.Run(name, func(t *testing.T) {
			onServer(t, siteOf(server.DB(t), "mysql", fence.MySQL, func(schema string) string {
				return "root@tcp(" + server.Addr() + ")/" + schema + parameters
			}))
		})
	}
}

func onServer(t *testing.T, at site) {
	row := func(t *testing.T) *kind { return newRowAt(t, at) }
	for name, test := range map[string]func(*testing.T){
		"refuses older":           func(t *testing.T) { refusesOlder(t, row(t)) },
		"never raised by shared":  func(t *testing.T) { neverRaisedByShared(t, row(t)) },
		"refuses no token":        func(t *testing.T) { refusesNoToken(t, row(t)) },
		"floor":                   func(t *testing.T) { hasFloor(t, row(t)) },
		"late writer":             func(t *testing.T) { refusesLateWriter(t, row) },
		"raised on entry":         func(t *testing.T) { isRaisedOnEntry(t, row) },
		"many writers":            func(t *testing.T) { neverGoesBack(t, row(t), 64) },
		"names":                   func(t *testing.T) { namesAreExact(t, at) },
		"all or nothing":          func(t *testing.T) { writesAllOrNothing(t, at) },
		"locked":                  func(t *testing.T) { isLockedDuringTheWrite(t, at) },
		"late writer waits":       func(t *testing.T) { lateWriterWaits(t, at) },
		"late writer's snapshot":  func(t *testing.T) { lateWriterSnapshot(t, at) },
		"created by many":         func(t *testing.T) { createdByMany(t, at) },
		"versioned":               func(t *testing.T) { versionedLateWriter(t, at) },
		"versioned, gone":         func(t *testing.T) { versionedGone(t, at) },
		"versioned, transaction":  func(t *testing.T) { versionedInATransaction(t, at) },
		"versioned, many writers": func(t *testing.T) { versionedLosesNoUpdate(t, at) },
		"versioned, snapshot":     func(t *testing.T) { versionedSnapshot(t, at) },
	} {
		t.Run(name, test)
	}
}

// lateWriterWaits has an old token arrive while a newer holder's transaction is open. It waits, and is refused if that
// commits. If that is rolled back, the newer token was never seen.
func lateWriterWaits(t *testing.T, at site) {
	for _, commits := range []bool{false, true} {
		t.Run(fmt.Sprintf("commits=%v", commits), func(t *testing.T) {
			db, fences := at(t)
			row := fences.Row("ledger")
			testkit.Must(t, row.Enter(t.Context(), db, older))
			tx, err := db.BeginTx(t.Context(), nil)
			testkit.Must(t, err)
			defer tx.Rollback()
			testkit.Must(t, row.Enter(t.Context(), tx, newer))
			late := make(chan error, 1)
			go func() { late <- row.Enter(t.Context(), db, older) }()
			select {
			case err := <-late:
				t.Fatalf("it did not wait: %v", err)
			case <-time.After(100 * time.Millisecond):
			}
			if !commits {
				testkit.Must(t, tx.Rollback())
				testkit.Check(t, <-late)
				return
			}
			testkit.Must(t, tx.Commit())
			wantStale(t, <-late, older, newer)
		})
	}
}

// levels are the isolation levels with which a transaction may begin.
var levels = []sql.IsolationLevel{
	sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable,
}

// lateWriterSnapshot has a transaction that began to read before a newer token passed. Its snapshot shows the old
// fence. It must not get in, whether it is refused by the fence or by the database.
func lateWriterSnapshot(t *testing.T, at site) {
	for _, level := range levels {
		t.Run(level.String(), func(t *testing.T) {
			db, fences := at(t)
			row := fences.Row("ledger")
			testkit.Must(t, row.Enter(t.Context(), db, older))
			tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
			testkit.Must(t, err)
			defer tx.Rollback()
			if level == sql.LevelSerializable && fences.Dialect == fence.MySQL {
				value[int](t, tx, "SELECT 1") // a read of the row would lock it, and nobody would pass
			} else if seen, err := row.Seen(t.Context(), tx); seen != older || err != nil {
				t.Fatal(seen, err)
			}
			testkit.Must(t, row.Enter(t.Context(), db, newer))
			err = row.Enter(t.Context(), tx, older)
			if err == nil {
				err = tx.Commit()
			}
			if err == nil {
				t.Error("it got in")
			}
			if seen, err := row.Seen(t.Context(), db); seen != newer || err != nil {
				t.Errorf("the fence is at %v, %v", seen, err)
			}
		})
	}
}

// createdByMany has many clients create the table at once. None of them fails.
func createdByMany(t *testing.T, at site) {
	db, fences := at(t)
	fences.Name = "others"
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			testkit.Check(t, fences.Create(t.Context(), db))
			testkit.Check(t, fences.Row("ledger").Enter(t.Context(), db, older))
		})
	}
	clients.Wait()
}

// versionedSnapshot has a transaction that read a row before another client wrote it. Its update is refused, by
// Versioned or by the database, and Versioned names the version that the row is at.
func versionedSnapshot(t *testing.T, at site) {
	for _, level := range levels {
		t.Run(level.String(), func(t *testing.T) {
			db, fences, items := shopAt(t, at)
			if level == sql.LevelSerializable && fences.Dialect == fence.MySQL {
				t.Skip("what it reads is locked, and nobody else can write it")
			}
			tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
			testkit.Must(t, err)
			defer tx.Rollback()
			version, err := items.Read(t.Context(), tx, 42, nil)
			testkit.Must(t, err)
			testkit.Must(t, items.Update(t.Context(), db, 42, version, fence.Columns{"stock": 9}))
			err = items.Update(t.Context(), tx, 42, version, fence.Columns{"stock": 7})
			var stale *fence.VersionError
			if errors.As(err, &stale) && (stale.Current != version+1 || !errors.Is(err, holdfast.ErrStale)) ||
				err == nil {
				t.Errorf("got %v", err)
			}
			testkit.Must(t, tx.Rollback())
			if stock := value[int](t, db, "SELECT stock FROM items"); stock != 9 {
				t.Errorf("the late write was let in: %d left", stock)
			}
		})
	}
}

package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/leaks"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// sqlite is a database of its own in a file, so that many connections can use it.
func sqlite(t *testing.T, statements ...string) *sql.DB {
	t.Helper()
	db, err := sql.Open(
		"sqlite",
		filepath.Join(t.TempDir(), "test.db")+"?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)",
	)
	testkit.Must(t, err)
	t.Cleanup(func() { db.Close() })
	for _, s := range statements {
		_, err := db.ExecContext(t.Context(), s)
		testkit.Must(t, err)
	}
	return db
}

// A site makes a database with fences in it, and nothing else but what the statements make.
type site func(t *testing.T, statements ...string) (*sql.DB, fence.Table)

// fenced is the site of SQLite.
func fenced(t *testing.T, statements ...string) (*sql.DB, fence.Table) {
	t.Helper()
	db, fences := sqlite(t, statements...), fence.Table{Dialect: fence.SQLite}
	testkit.Must(t, fences.Create(t.Context(), db))
	return db, fences
}

// value is what a query gives.
func value[T any](t *testing.T, db fence.Querier, query string) T {
	t.Helper()
	var v T
	testkit.Check(t, db.QueryRowContext(context.WithoutCancel(t.Context()), query).Scan(&v))
	return v
}

// wantStale fails the test unless err refuses token because of seen.
func wantStale(t *testing.T, err error, token, seen holdfast.Token) {
	t.Helper()
	var stale *fence.StaleError
	if !errors.Is(err, holdfast.ErrStale) || !errors.As(err, &stale) || stale.Token != token || stale.Seen != seen {
		t.Errorf("got %v, want a StaleError: %v, and seen %v", err, token, seen)
	}
}

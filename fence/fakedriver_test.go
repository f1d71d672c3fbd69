package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A wire is a database that only writes down what it is sent, and answers what the test says: for databases that are
// not at hand.
type wire struct {
	mu     sync.Mutex
	sent   []string
	answer func(query string) ([]driver.Value, error) // the one row of a query, or how an exec fails
	counts int64                                      // how many rows an exec says that it affected
}

// open gives a database/sql on the wire.
func (w *wire) open(t *testing.T) *sql.DB {
	db := sql.OpenDB(w)
	t.Cleanup(func() { db.Close() })
	return db
}

// note writes down a statement, with white space made one space, and its arguments.
func (w *wire) note(query string, args []driver.NamedValue) ([]driver.Value, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	line := strings.Join(strings.Fields(query), " ")
	for _, a := range args {
		line += fmt.Sprintf(" | %v", a.Value)
	}
	w.sent = append(w.sent, line)
	if w.answer == nil {
		return nil, nil
	}
	return w.answer(query)
}

// wantSent fails the test unless exactly these were sent since the last time.
func (w *wire) wantSent(t *testing.T, want ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.sent, want) {
		t.Errorf("sent:\n\t%s\nwant:\n\t%s", strings.Join(w.sent, "\n\t"), strings.Join(want, "\n\t"))
	}
	w.sent = nil
}

// What database/sql wants of a driver.

func (w *wire) Connect(context.Context) (driver.Conn, error) { return wireConn{w}, nil }
func (w *wire) Driver() driver.Driver                        { return nil }

type wireConn struct{ *wire }

func (c wireConn) Prepare(string) (driver.Stmt, error) { return nil, driver.ErrSkip }
func (c wireConn) Close() error                        { return nil }

func (c wireConn) Begin() (driver.Tx, error) {
	_, err := c.note("BEGIN", nil)
	return c, err
}

func (c wireConn) Commit() error {
	_, err := c.note("COMMIT", nil)
	return err
}

func (c wireConn) Rollback() error {
	_, err := c.note("ROLLBACK", nil)
	return err
}

func (c wireConn) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	_, err := c.note(query, args)
	return driver.RowsAffected(c.counts), err
}

func (c wireConn) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	row, err := c.note(query, args)
	return &wireRows{row: row}, err
}

// wireRows is one row, or none if it is nil.
type wireRows struct {
	row  []driver.Value
	done bool
}

func (r *wireRows) Columns() []string { return make([]string, len(r.row)) }
func (r *wireRows) Close() error      { return nil }

func (r *wireRows) Next(into []driver.Value) error {
	if r.row == nil || r.done {
		return io.EOF
	}
	r.done = true
	copy(into, r.row)
	return nil
}

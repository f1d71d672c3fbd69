package sqlite

import (
	"context"
	"database/sql"
	_ "embed" // the schema
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	_ "modernc.org/sqlite" // the driver
)

//go:embed schema.sql
var schema string

// format is the version of what is written. A file or a row of a greater version is not changed.
const format = 1

// A file is an open connection to a database file, with its prepared statements.
type file struct {
	db         *sql.DB
	conn       *sql.Conn
	statements map[string]*sql.Stmt
	info       fs.FileInfo   // of what was opened
	index      fs.FileInfo   // of its log's index
	indexed    time.Duration // when that was last checked
	installed  bool          // the tables exist

	owner   *store.Owner // the owner that details describe
	details string
}

// Statements always run to their end. They are short, and callers of the worker return when their context is done.
var always = context.Background()

// making is held while a new file is created. SQLite's locks are POSIX locks, which a process loses when it closes any
// descriptor of the file: no other store of this process may have opened it meanwhile.
var making sync.Mutex

// The modes of a file that is created.
const (
	privateMode = 0o600
	sharedMode  = 0o660
)

// openFile opens the database at path, and creates it with this mode if it does not exist.
func openFile(path string, mode fs.FileMode) (*file, error) {
	if err := makeFile(path, mode); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", source(path))
	if err != nil {
		return nil, err
	}
	f := &file{db: db, statements: map[string]*sql.Stmt{}}
	if err := f.prepare(path); err != nil {
		_ = f.close()
		return nil, err
	}
	return f, nil
}

// makeFile creates an empty file with this mode. SQLite would create one that all users can read.
func makeFile(path string, mode fs.FileMode) error {
	making.Lock()
	defer making.Unlock()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, privateMode)
	if errors.Is(err, fs.ErrExist) {
		return nil // another process created it first
	}
	if err != nil {
		return err
	}
	if mode != privateMode {
		err = f.Chmod(mode) // whatever the umask is
	}
	return errors.Join(err, f.Close())
}

// source returns the driver's name for the file. All special characters of the path are escaped.
func source(path string) string {
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // C:/ on Windows
	}
	u := url.URL{Scheme: "file", Path: slashed}
	// Rw: makeFile makes it, and SQLite never.
	u.RawQuery = "mode=rw&_pragma=busy_timeout(0)&_pragma=synchronous(normal)"
	return u.String()
}

// prepare connects and sets the write-ahead mode.
func (f *file) prepare(path string) (err error) {
	f.db.SetMaxOpenConns(1)
	if f.info, err = os.Stat(path); errors.Is(err, fs.ErrNotExist) { // before it is opened: see the last lines
		return errMoved // makeFile has found or created it just now
	} else if err != nil {
		return err
	}
	if f.conn, err = f.db.Conn(always); err != nil {
		return err
	}
	var mode string
	if err := f.conn.QueryRowContext(always, "PRAGMA journal_mode = wal").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return errNoWAL
	}
	if _, err := f.version(); err != nil { // the first read maps the index of the log
		return err
	}
	if f.index, err = os.Stat(path + "-shm"); err != nil {
		return errMoved
	}
	if info, err := os.Stat(path); err != nil || !os.SameFile(info, f.info) {
		return errMoved
	}
	return nil
}

// indexEvery is how often the log's index is checked.
const indexEvery = 100 * time.Millisecond

// current reports whether the open file is still the file at this path. An operator who restores a copy may also remove
// only the log and its index: SQLite would continue with the removed ones.
func (f *file) current(path string, now time.Duration) bool {
	info, err := os.Stat(path)
	if err != nil || !os.SameFile(info, f.info) {
		return false
	}
	if now < f.indexed+indexEvery {
		return true
	}
	f.indexed = now
	index, err := os.Stat(path + "-shm")
	return err == nil && os.SameFile(index, f.index)
}

// close closes the connection. SQLite removes the log when the last process closes the file.
func (f *file) close() error {
	for _, s := range f.statements {
		if s != nil {
			_ = s.Close()
		}
	}
	var err error
	if f.conn != nil {
		err = f.conn.Close()
	}
	return errors.Join(err, f.db.Close())
}

// prepareQuery makes sure that a statement is prepared. It stays prepared until the file is closed.
func (f *file) prepareQuery(query string) (err error) {
	if f.statements[query] == nil {
		f.statements[query], err = f.conn.PrepareContext(always, query) //nolint:sqlclosecheck // close closes all
	}
	return err
}

func (f *file) exec(query string, args ...any) error {
	_, err := f.execCount(query, args...)
	return err
}

// execCount runs a statement and returns how many rows it changed.
func (f *file) execCount(query string, args ...any) (int64, error) {
	if err := f.prepareQuery(query); err != nil {
		return 0, err
	}
	done, err := f.statements[query].ExecContext(always, args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// one reads a row into these variables and reports whether there was one.
func (f *file) one(query string, args []any, into ...any) (bool, error) {
	if err := f.prepareQuery(query); err != nil {
		return false, err
	}
	err := f.statements[query].QueryRowContext(always, args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// each calls read for each row of a query.
func (f *file) each(query string, args []any, read func(*sql.Rows) error) error {
	if err := f.prepareQuery(query); err != nil {
		return err
	}
	rows, err := f.statements[query].QueryContext(always, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// readAll runs a query and returns what read makes of its rows.
func readAll[T any](f *file, query string, read func(*sql.Rows) (T, error), args ...any) (all []T, err error) {
	err = f.each(query, args, func(rows *sql.Rows) error {
		one, err := read(rows)
		all = append(all, one)
		return err
	})
	return all, err
}

// version returns a number that changes when another connection has written.
func (f *file) version() (v int64, err error) {
	_, err = f.one("PRAGMA data_version", nil, &v)
	return v, err
}

// A clock returns the time since this machine was started, and identifies that start.
type clock struct {
	boot string
	now  func() time.Duration
}

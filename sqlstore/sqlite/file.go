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

// Format is the version of what is written. A file or a row of a greater one is not touched.
const format = 1

// A file is an open connection to a database file, with its prepared statements.
type file struct {
	db         *sql.DB
	conn       *sql.Conn
	statements map[string]*sql.Stmt
	info       fs.FileInfo   // of what was opened
	index      fs.FileInfo   // of its log's index
	indexed    time.Duration // when that was last looked at
	installed  bool          // the tables are there

	owner   *store.Owner // whom details describe
	details string
}

// Statements run to their end: they are short, and the worker's callers do not wait for longer than they like.
var always = context.Background()

// making guards the moment in which a new file is made. SQLite's locks are POSIX locks, which a process loses on a
// file when it closes any descriptor of that file: no other store of this process may have opened it meanwhile.
var making sync.Mutex

// The modes of a file that is made.
const (
	privateMode = 0o600
	sharedMode  = 0o660
)

// openFile opens the database at path, and makes it with this mode if it is not there.
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

// makeFile makes an empty file of this mode. SQLite would make one that everybody can read.
func makeFile(path string, mode fs.FileMode) error {
	making.Lock()
	defer making.Unlock()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, privateMode)
	if errors.Is(err, fs.ErrExist) {
		return nil // another process was faster
	}
	if err != nil {
		return err
	}
	if mode != privateMode {
		err = f.Chmod(mode) // whatever the umask is
	}
	return errors.Join(err, f.Close())
}

// source is the driver's name for the file. A path is data: whatever it holds is escaped.
func source(path string) string {
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // C:/ on Windows
	}
	u := url.URL{Scheme: "file", Path: slashed}
	u.RawQuery = "mode=rw&_pragma=busy_timeout(0)&_pragma=synchronous(normal)" // rw: makeFile makes it, and SQLite never
	return u.String()
}

// prepare connects, and sets up what is not there.
func (f *file) prepare(path string) (err error) {
	f.db.SetMaxOpenConns(1)
	if f.info, err = os.Stat(path); errors.Is(err, fs.ErrNotExist) { // before it is opened: see the last lines
		return errMoved // it was there a moment ago
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

// indexEvery is how often the log's index is looked at.
const indexEvery = 100 * time.Millisecond

// current says whether what is open is still the file of this path. Whoever restores a copy may also remove the log
// and its index alone: SQLite would go on in those that were removed.
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

// close closes what is open. The last process that closes the file tidies up after all.
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

// know makes sure that a statement is prepared. It stays so until the file is closed.
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

// execCount says how many rows it has changed.
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

// one reads a row into these places, and says whether there was one.
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

// each reads rows, and calls read for each.
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

// version changes when another connection has written.
func (f *file) version() (v int64, err error) {
	_, err = f.one("PRAGMA data_version", nil, &v)
	return v, err
}

// A clock tells the time since this machine was started, and which start that was.
type clock struct {
	boot string
	now  func() time.Duration
}

package sqlite

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/holdfast-go/holdfast/store"
	driver "modernc.org/sqlite"
	result "modernc.org/sqlite/lib"
)

// errMoved is as good as busy.
var errMoved = errors.New("the file was replaced at this moment")

// A finalError is an error that a retry does not fix.
type finalError string

func (e finalError) Error() string { return string(e) }

const (
	errNoWAL     = finalError("write-ahead mode cannot be had here; the file must be on a local disk")
	errNoMeta    = finalError("the table holdfast_meta is empty; drop the tables of Holdfast, and they are made anew")
	errElsewhere = finalError("another machine writes to this file too; a SQLite store is for one machine")
)

// othersCan returns the error for a file that is refused because of what other users can do to it.
func othersCan(format string, args ...any) error {
	return finalError(fmt.Sprintf(format, args...) + "; if that is meant, open it with ?shared=yes")
}

// code returns SQLite's primary result code, or 0.
func code(err error) int {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Code() & 0xff // the rest says where it happened
	}
	return 0
}

// isBusy reports that another process has the lock that is needed, for the moment.
func isBusy(err error) bool {
	c := code(err)
	return c == result.SQLITE_BUSY || c == result.SQLITE_LOCKED || errors.Is(err, errMoved)
}

// fault returns a *store.Fault that says what an error of SQLite means, and whether a retry can help.
func (e *engine) fault(err error) error {
	if store.Final(err) {
		return err
	}
	if f, ok := errors.AsType[*store.Fault](err); ok {
		return f
	}
	final := true
	switch code(err) {
	case result.SQLITE_FULL:
		err, final = errors.New("the disk is full"), false
	case result.SQLITE_READONLY:
		err = errors.New("the file or its folder is read-only: SQLite writes both")
	case result.SQLITE_NOTADB:
		err = errors.New("the file is not a SQLite database")
	case result.SQLITE_CORRUPT:
		err = fmt.Errorf("the file is damaged; restore it, or delete it while nobody uses it: %w", err)
	case result.SQLITE_CANTOPEN, result.SQLITE_PERM, result.SQLITE_AUTH:
		if owner := belongsTo(e.path); owner != "" {
			err = fmt.Errorf("the file belongs to %s: %w", owner, err)
			break
		}
		err = fmt.Errorf("the file cannot be opened; its folder must be there and be writable: %w", err)
	default:
		switch _, known := errors.AsType[finalError](err); {
		case known:
		case errors.Is(err, fs.ErrNotExist):
			err = errors.New("the folder is not there")
		case errors.Is(err, fs.ErrPermission):
			err = errors.New("no permission to make or open the file")
		default:
			final = false // an I/O error, for one, may pass
		}
	}
	return &store.Fault{Store: e.String(), Final: final, Err: err}
}

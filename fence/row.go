package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast"
)

// A Row is a fence kept in a SQL table, beside the data that it guards. It has no state of its own: two Rows with the
// same table and name are the same fence.
type Row struct {
	table Table
	name  string
}

// Do checks and raises the fence and calls write in one transaction, and commits it. The row of the fence is locked
// from before the first statement of write until the end, so that no other token passes meanwhile: a newer holder
// either waits for this write and then sees it, or came first, and this write is refused. Reads that the write depends
// on belong into write too, or after Enter.
//
// It returns a *StaleError if write was not called, or write's error; nothing was written then. If ctx ends before the
// commit, nothing is written either: pass the lease's context. After an error of the commit itself it is not known
// whether the data was written.
//
// Shared leases (semaphores) that write under one fence do so one after the other.
func (r Row) Do(ctx context.Context, db *sql.DB, token holdfast.Token, write func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return r.failed(ctx, err)
	}
	defer tx.Rollback()
	if err := r.Enter(ctx, tx, token); err != nil {
		return err
	}
	if err := write(tx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil { // a lease that is over ends its context when it is checked
		return r.failed(ctx, err)
	}
	return r.failed(ctx, tx.Commit())
}

// Enter raises the fence to token, or returns a *StaleError. A new holder calls it with the *sql.DB before its first
// read. From then on the tokens of earlier holders are refused.
//
// As the first statement of a *sql.Tx it guards that transaction as Do does: roll it back after an error. With a
// *sql.DB it does not guard what is written later; that is for Do.
func (r Row) Enter(ctx context.Context, db Querier, token holdfast.Token) error {
	if err := checkName(r.name); err != nil {
		return err
	}
	to := token
	if token.Shared() {
		to = 0
	}
	seen, err := r.table.raise(ctx, db, r.name, to)
	if err != nil {
		return r.failed(ctx, err)
	}
	if token == 0 || token < seen {
		return &StaleError{Token: token, Seen: seen}
	}
	return nil
}

// Seen returns the newest exclusive token that passed, or the floor that was set, or 0 if there was none. It returns an
// error if the name or the table is invalid, or the database fails.
func (r Row) Seen(ctx context.Context, db Querier) (holdfast.Token, error) {
	if err := checkName(r.name); err != nil {
		return 0, err
	}
	seen, err := r.table.read(ctx, db, sqlRead, r.name)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return seen, r.failed(ctx, err)
}

// SetFloor makes the fence refuse every token below this one. It is for operators who replace a store and know the
// highest token of the old one. It can also lower the fence, and reset it with 0. Late writes of earlier holders then
// pass, so make sure that there are none.
func (r Row) SetFloor(ctx context.Context, db Querier, token holdfast.Token) error {
	if err := checkName(r.name); err != nil {
		return err
	}
	return r.failed(ctx, r.table.setFloor(ctx, db, r.name, token))
}

// checkName accepts the names that locks can have.
func checkName(name string) error {
	if name == "" || len(name) > 512 || !utf8.ValidString(name) || strings.Contains(name, "\x00") {
		return fmt.Errorf("%w: a fence's name is UTF-8 of 1 to 512 bytes without NUL", holdfast.ErrBadName)
	}
	return nil
}

func (r Row) failed(ctx context.Context, err error) error {
	return failed(ctx, r.table.Dialect.String(), r.name, err)
}

// failed wraps err in an *Error that names the fence, with the cause of ctx if that has ended. It returns nil for nil.
func failed(ctx context.Context, store, name string, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = errors.Join(err, cause)
	}
	return &holdfast.Error{Op: "fence", Name: name, Store: store, Err: err}
}

package fence

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
)

// Versioned is the optimistic update of rows in a table of your own that has a version column:
//
//	version BIGINT NOT NULL DEFAULT 0
//
// A write names the version that was read, and is refused if the row has another one by then. It needs no lock and no
// token. Beside a lock it is a second protection: unlike a fence it also refuses writers that forgot to lock, if they
// use it; and unlike a fence it accepts a late write to a row that was not changed meanwhile.
//
// Names of tables and columns are in the database's spelling. They are quoted, and only plain ones are accepted:
// letters, digits and _; a table's may be qualified by its schema. Keys and values are always parameters.
type Versioned struct {
	Dialect Dialect
	Table   string
	Key     string // the column that identifies a row; it must be unique
	Version string // the version column; empty: version
}

// Columns maps column names to new values, for Update, or to pointers to be filled, for Read.
type Columns map[string]any

// A VersionError refuses a write because the row no longer has the version that was read. It is a holdfast.ErrStale.
type VersionError struct {
	Table   string
	Version int64 // the version that was read
	Current int64 // the version that the row has
	Gone    bool  // the row was deleted
}

// Error returns a text with both versions.
func (e *VersionError) Error() string {
	if e.Gone {
		return fmt.Sprintf("holdfast: stale version: a row of %s was read at %d and is gone", e.Table, e.Version)
	}
	return fmt.Sprintf("holdfast: stale version: a row of %s was read at %d and is at %d", e.Table, e.Version,
		e.Current)
}

// Unwrap returns holdfast.ErrStale.
func (e *VersionError) Unwrap() error { return holdfast.ErrStale }

// Read returns the version of the row and, in the same statement, fills the columns of into: a version that is read
// after the data says nothing about the data. If there is no such row, the error is sql.ErrNoRows.
func (v Versioned) Read(ctx context.Context, db Querier, key any, into Columns) (int64, error) {
	version, err := v.read(ctx, db, key, into, "")
	if err != nil {
		return 0, v.failed("read", err)
	}
	return version, nil
}

// Update writes the columns of set and moves the row to version+1 if it still has this version, in one statement.
// Otherwise it returns a *VersionError, and nothing was written. If Key is not unique, several rows may have been
// written, and the error wraps holdfast.ErrBadOption, as for an invalid name. Other errors are those of the database.
func (v Versioned) Update(ctx context.Context, db Querier, key any, version int64, set Columns) error {
	query, args, err := v.update(key, version, set)
	if err != nil {
		return v.failed("update", err)
	}
	result, err := db.ExecContext(ctx, query, args...)
	if err != nil {
		return v.failed("update", err)
	}
	// The version always changes, so MySQL too counts the row as affected.
	switch n, err := result.RowsAffected(); {
	case err != nil:
		return v.failed("update", err)
	case n == 0:
		return v.refused(ctx, db, key, version)
	case n > 1:
		err := fmt.Errorf("%w: key %s is not unique, and %d rows were written", holdfast.ErrBadOption, v.Key, n)
		return v.failed("update", err)
	}
	return nil
}

// refused returns the error of a refused update, with the row's version if it can be read.
func (v Versioned) refused(ctx context.Context, db Querier, key any, version int64) error {
	suffix := ""
	if v.Dialect == MySQL {
		suffix = " FOR UPDATE" // in a transaction, a plain read may still show the version that was refused
	}
	current, err := v.read(ctx, db, key, nil, suffix)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return v.failed("update", fmt.Errorf("%w: read at %d, now unknown: %w", holdfast.ErrStale, version, err))
	}
	return &VersionError{Table: v.Table, Version: version, Current: current, Gone: err != nil}
}

// read returns the version of the row, and fills the columns of into. suffix is appended to the statement.
func (v Versioned) read(ctx context.Context, db Querier, key any, into Columns, suffix string) (int64, error) {
	table, keyColumn, versionColumn, err := v.quoted()
	if err != nil {
		return 0, err
	}
	var version int64
	columns, targets := []string{versionColumn}, []any{&version}
	for _, name := range slices.Sorted(maps.Keys(into)) {
		column, err := v.Dialect.column(name)
		if err != nil {
			return 0, err
		}
		columns, targets = append(columns, column), append(targets, into[name])
	}
	query := fmt.Sprintf("SELECT %s FROM %s WHERE %s = ?%s", strings.Join(columns, ", "), table, keyColumn, suffix)
	err = db.QueryRowContext(ctx, v.Dialect.bind(query), key).Scan(targets...)
	return version, err
}

// update returns the statement of Update and its arguments. It returns an error if a name is invalid.
func (v Versioned) update(key any, version int64, set Columns) (query string, args []any, err error) {
	table, keyColumn, versionColumn, err := v.quoted()
	if err != nil {
		return "", nil, err
	}
	var assignments strings.Builder
	for _, name := range slices.Sorted(maps.Keys(set)) {
		column, err := v.Dialect.column(name)
		if err != nil {
			return "", nil, err
		}
		if strings.EqualFold(column, versionColumn) {
			return "", nil, fmt.Errorf("%w: Update counts column %s itself", holdfast.ErrBadOption, name)
		}
		assignments.WriteString(column + " = ?, ")
		args = append(args, set[name])
	}
	query = fmt.Sprintf("UPDATE %s SET %s%s = %s + 1 WHERE %s = ? AND %s = ?",
		table, assignments.String(), versionColumn, versionColumn, keyColumn, versionColumn)
	return v.Dialect.bind(query), append(args, key, version), nil
}

// quoted returns the names of the table and of its columns, quoted. It returns an error if one is invalid.
func (v Versioned) quoted() (table, key, version string, err error) {
	table, tableErr := v.Dialect.table(v.Table)
	key, keyErr := v.Dialect.column(v.Key)
	version, versionErr := v.Dialect.column(cmp.Or(v.Version, "version"))
	return table, key, version, errors.Join(tableErr, keyErr, versionErr)
}

// failed wraps err in a *holdfast.Error.
func (v Versioned) failed(op string, err error) error {
	return &holdfast.Error{Op: op, Name: v.Table, Store: v.Dialect.String(), Err: err}
}

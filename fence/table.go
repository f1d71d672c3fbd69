package fence

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
)

// A Table holds the fences of a database, one row for each guarded resource. It must be in the same database as the
// data, since the row and the data are locked and written in one transaction. [Table.Create] creates it; programs with
// migrations add the statement of [Table.DDL] to them, which for PostgreSQL is
//
//	CREATE TABLE IF NOT EXISTS "holdfast_fences" (
//		name text COLLATE "C" PRIMARY KEY,
//		token text COLLATE "C" NOT NULL CHECK (length(token) = 20),
//		raised_at timestamptz NOT NULL
//	)
//
// The token is text as [Pad] writes it. raised_at, when the fence was last raised, is for people. Deleting a row resets
// its fence: see [Row.SetFloor].
type Table struct {
	Dialect Dialect
	Name    string // with or without its schema, in the database's spelling; empty: holdfast_fences
}

// Row returns the fence of this name. A bad name or table is reported when it is used.
func (t Table) Row(name string) Row { return Row{t, name} }

// The statements that create the table. In MySQL a name is binary, because its text collations ignore trailing spaces.
const (
	ddlSQLite = `CREATE TABLE IF NOT EXISTS %s (
	name TEXT NOT NULL PRIMARY KEY,
	token TEXT NOT NULL CHECK (length(token) = 20),
	raised_at TEXT NOT NULL
)`
	ddlPostgreSQL = `CREATE TABLE IF NOT EXISTS %s (
	name text COLLATE "C" PRIMARY KEY,
	token text COLLATE "C" NOT NULL CHECK (length(token) = 20),
	raised_at timestamptz NOT NULL
)`
	ddlMySQL = `CREATE TABLE IF NOT EXISTS %s (
	name VARBINARY(512) NOT NULL PRIMARY KEY,
	token CHAR(20) CHARACTER SET ascii COLLATE ascii_bin NOT NULL CHECK (length(token) = 20),
	raised_at DATETIME NOT NULL
) ENGINE=InnoDB`
)

// The statements that read and write a row. The returned value decides whether a token passes, never a count of rows:
// MySQL counts a row that keeps its value as not affected, and no row can mean stale or missing.
//
// Raise inserts the row if there is none, keeps the greater of two tokens, and leaves the row locked until the
// transaction ends, also when it changes nothing. Of two concurrent inserts, the second waits for the first and then
// finds its row. So the returned value is the newest, at every isolation level: where a level forbids reading past its
// snapshot, the database refuses the statement.
const (
	sqlRaise = `INSERT INTO %s AS f (name, token, raised_at) VALUES (?, ?, CURRENT_TIMESTAMP)
ON CONFLICT (name) DO UPDATE SET
	token = CASE WHEN f.token < excluded.token THEN excluded.token ELSE f.token END,
	raised_at = CASE WHEN f.token < excluded.token THEN excluded.raised_at ELSE f.raised_at END
RETURNING token`

	// MySQL assigns from left to right, so the token comes last. The statement returns nothing: the row is read
	// afterwards, with FOR UPDATE, because a plain read may show a snapshot from before the lock.
	sqlRaiseMySQL = `INSERT INTO %s (name, token, raised_at) VALUES (?, ?, UTC_TIMESTAMP())
ON DUPLICATE KEY UPDATE
	raised_at = CASE WHEN token < ? THEN UTC_TIMESTAMP() ELSE raised_at END,
	token = CASE WHEN token < ? THEN ? ELSE token END`
	sqlReadLocked = `SELECT token FROM %s WHERE name = ? FOR UPDATE`

	sqlRead = `SELECT token FROM %s WHERE name = ?`

	sqlSet = `INSERT INTO %s (name, token, raised_at) VALUES (?, ?, CURRENT_TIMESTAMP)
ON CONFLICT (name) DO UPDATE SET token = excluded.token, raised_at = excluded.raised_at`
	sqlSetMySQL = `INSERT INTO %s (name, token, raised_at) VALUES (?, ?, UTC_TIMESTAMP())
ON DUPLICATE KEY UPDATE raised_at = UTC_TIMESTAMP(), token = ?`
)

// statement inserts the table's name into a statement and numbers its placeholders.
func (t Table) statement(format string) (string, error) {
	quoted, err := t.Dialect.table(cmp.Or(t.Name, "holdfast_fences"))
	if err != nil {
		return "", err
	}
	return t.Dialect.bind(fmt.Sprintf(format, quoted)), nil
}

// DDL returns the statement that creates the table, for migrations. It returns an error if the dialect or the name of
// the table is not valid.
func (t Table) DDL() (string, error) {
	switch t.Dialect {
	case PostgreSQL:
		return t.statement(ddlPostgreSQL)
	case MySQL:
		return t.statement(ddlMySQL)
	default:
		return t.statement(ddlSQLite)
	}
}

// Create creates the table unless it exists. It returns the errors of DDL, and the error of the database.
func (t Table) Create(ctx context.Context, db Querier) error {
	ddl, err := t.DDL()
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, ddl); err != nil {
		// In PostgreSQL concurrent creations can fail, and so does a user who may use the table but not create it.
		if _, absent := t.read(ctx, db, sqlRead, ""); errors.Is(absent, sql.ErrNoRows) {
			return nil
		}
		return fmt.Errorf("holdfast: create the table of fences: %w", err)
	}
	return nil
}

// raise raises the fence of name to token if it is lower, and returns the newest token. With 0 it only locks the row.
func (t Table) raise(ctx context.Context, db Querier, name string, token holdfast.Token) (holdfast.Token, error) {
	to := Pad(token)
	if t.Dialect != MySQL {
		return t.read(ctx, db, sqlRaise, name, to)
	}
	if err := t.write(ctx, db, sqlRaiseMySQL, name, to, to, to, to); err != nil {
		return 0, err
	}
	return t.read(ctx, db, sqlReadLocked, name)
}

// setFloor writes token into the row, whatever it holds.
func (t Table) setFloor(ctx context.Context, db Querier, name string, token holdfast.Token) error {
	to := Pad(token)
	if t.Dialect != MySQL {
		return t.write(ctx, db, sqlSet, name, to)
	}
	return t.write(ctx, db, sqlSetMySQL, name, to, to)
}

// read executes a statement that returns a token. No row is sql.ErrNoRows: only Seen may read that as a fence that was
// never raised. After a raise there is always a row.
func (t Table) read(ctx context.Context, db Querier, format string, args ...any) (holdfast.Token, error) {
	query, err := t.statement(format)
	if err != nil {
		return 0, err
	}
	var text string
	if err := db.QueryRowContext(ctx, query, args...).Scan(&text); err != nil {
		return 0, err
	}
	return unpad(text)
}

// write executes a statement that returns nothing.
func (t Table) write(ctx context.Context, db Querier, format string, args ...any) error {
	query, err := t.statement(format)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, query, args...)
	return err
}

package fence

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast"
)

// A Dialect is the SQL dialect of a database.
type Dialect uint8

// The dialects.
const (
	SQLite     Dialect = iota + 1 // 3.35 or later
	PostgreSQL                    // 9.5 or later
	MySQL                         // 5.7 or later with InnoDB, and MariaDB
)

// String returns the name of the database.
func (d Dialect) String() string {
	switch d {
	case SQLite:
		return "SQLite"
	case PostgreSQL:
		return "PostgreSQL"
	case MySQL:
		return "MySQL"
	default:
		return fmt.Sprintf("Dialect(%d)", uint8(d))
	}
}

// A Querier executes statements: a *sql.Tx, a *sql.DB or a *sql.Conn.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// bind numbers the placeholders if the dialect requires it. Every ? is one: the statements here have no literals, and
// identifiers do not contain it.
func (d Dialect) bind(query string) string {
	if d != PostgreSQL {
		return query
	}
	var b strings.Builder
	for i, part := range strings.Split(query, "?") {
		if i > 0 {
			b.WriteString("$" + strconv.Itoa(i))
		}
		b.WriteString(part)
	}
	return b.String()
}

// isIdentifier reports whether name is a plain identifier. It does not use a regular expression: compiling one would
// cost every program that imports the package a millisecond at its start.
func isIdentifier(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && len(name) <= 63
}

// column quotes an identifier. Only plain ones are accepted, so that nothing in it can end the quotes.
func (d Dialect) column(name string) (string, error) {
	if !isIdentifier(name) {
		return "", fmt.Errorf("%w: %q is not an identifier: letters, digits and _, at most 63", holdfast.ErrBadOption,
			name)
	}
	switch d {
	case PostgreSQL:
		return `"` + name + `"`, nil
	case SQLite, MySQL:
		// Not double quotes in SQLite, which reads a misspelt column in double quotes as a string.
		return "`" + name + "`", nil
	default:
		return "", fmt.Errorf("%w: %v is not a SQL dialect of package fence", holdfast.ErrBadOption, d)
	}
}

// table quotes the name of a table, which may be qualified by its schema.
func (d Dialect) table(name string) (string, error) {
	schema, rest, qualified := strings.Cut(name, ".")
	if !qualified {
		return d.column(name)
	}
	first, err := d.column(schema)
	if err != nil {
		return "", err
	}
	second, err := d.column(rest)
	return first + "." + second, err
}

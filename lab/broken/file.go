package broken

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"

	"github.com/holdfast-go/holdfast"
	_ "github.com/holdfast-go/holdfast/sqlstore/sqlite" // sqlite:
)

// openFile opens a SQLite database beside that of Holdfast's locks, with these tables.
func openFile(ctx context.Context, p *part, schema string) (*sql.DB, error) {
	query := url.Values{"_pragma": {"busy_timeout(20000)", "synchronous(off)"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: p.Addrs[0] + ".naive"}).EscapedPath()+"?"+query.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, schema)
	return db, err
}

// changed runs a statement and reports whether it changed a row.
func changed(ctx context.Context, db *sql.DB, statement string, args ...any) (bool, error) {
	done, err := db.ExecContext(ctx, statement, args...)
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n > 0, err
}

// holdfastFile is Holdfast's lock in a SQLite file.
func holdfastFile(p *part) (url string, options []holdfast.Option) {
	return fmt.Sprintf("sqlite:%s?ttl=%v", p.Addrs[0], p.TTL), nil
}

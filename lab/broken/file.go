package broken

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"

	_ "github.com/holdfast-go/holdfast/sqlstore/sqlite" // sqlite:
)

// A file is a SQLite file, as a player has it.
type file struct {
	*sql.DB
	*part
}

func (f file) close() error { return f.DB.Close() }

// overFile makes the opener of a lock that needs a file with these tables.
func overFile(schema string, wrap func(file) lock) opener {
	return func(ctx context.Context, p *part) (lock, error) {
		f, err := openFile(ctx, p, schema)
		return wrap(f), err
	}
}

// openFile opens a SQLite database beside that of Holdfast's locks, with these tables.
func openFile(ctx context.Context, p *part, schema string) (file, error) {
	query := url.Values{"_pragma": {"busy_timeout(20000)", "synchronous(off)"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: p.Addrs[0] + ".naive"}).EscapedPath()+"?"+query.Encode())
	if err != nil {
		return file{}, err
	}
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, schema)
	return file{db, p}, err
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
func holdfastFile(p *part) (url string) {
	return fmt.Sprintf("sqlite:%s?ttl=%v", p.Addrs[0], p.TTL)
}

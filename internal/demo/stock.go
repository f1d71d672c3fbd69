package demo

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver of that name

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
)

// A stock is what the workers sell: a number in a SQLite file, and a row for each sale.
type stock struct {
	db     *sql.DB
	fenced bool
}

const stockSchema = `
CREATE TABLE stock (remaining INTEGER NOT NULL);
CREATE TABLE sales (item INTEGER NOT NULL, worker INTEGER NOT NULL);
` + naiveSchema

var (
	fences     = fence.Table{Dialect: fence.SQLite}
	stockFence = fences.Row("stock")
)

// makeStock creates the file of a stock with this number of items.
func makeStock(ctx context.Context, path string, items int) (err error) {
	s, err := openStock(path, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if _, err := s.db.ExecContext(ctx, stockSchema); err != nil {
		return err
	}
	if err := fences.Create(ctx, s.db); err != nil {
		return err
	}
	_, err = s.db.ExecContext(ctx, `INSERT INTO stock (remaining) VALUES (?)`, items)
	return err
}

func openStock(path string, fenced bool) (*stock, error) {
	db, err := sql.Open("sqlite", fileURI(path)+"?"+url.Values{
		"_pragma": {"busy_timeout(10000)", "journal_mode(wal)", "synchronous(off)"}, // it is removed with the demo
		"_txlock": {"immediate"},
	}.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return &stock{db, fenced}, nil
}

// fileURI returns a path as a URI for SQLite, with any characters.
func fileURI(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/folder
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

func (s *stock) close() error { return s.db.Close() }

// read returns how many items are left. A fenced stock first raises its fence, so that workers that read before with an
// older token can no longer write.
func (s *stock) read(ctx context.Context, token holdfast.Token) (left int, err error) {
	if s.fenced {
		if err := stockFence.Enter(ctx, s.db, token); err != nil {
			return 0, err
		}
	}
	err = s.db.QueryRowContext(ctx, `SELECT remaining FROM stock`).Scan(&left)
	return left, err
}

// sell records that worker sold this item, and that one less is left, in one transaction.
func (s *stock) sell(ctx context.Context, token holdfast.Token, item, worker int) error {
	write := func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE stock SET remaining = ?`, item-1); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO sales (item, worker) VALUES (?, ?)`, item, worker)
		return err
	}
	if s.fenced {
		return stockFence.Do(ctx, s.db, token, write)
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := write(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// count returns how many sales there were.
func (s *stock) count(ctx context.Context) (sales int, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT count(*) FROM sales`).Scan(&sales)
	return sales, err
}

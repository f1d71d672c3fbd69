package broken

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/lab/check"
)

const stockSchema = `CREATE TABLE IF NOT EXISTS stock (id INTEGER PRIMARY KEY, left INTEGER NOT NULL,
	version INTEGER NOT NULL);
	INSERT INTO stock VALUES (1, 100, 1) ON CONFLICT DO NOTHING`

// A newerStock accepts an update if its version is newer than the row's. Versions are times.
type newerStock struct{ file }

func (r newerStock) read(ctx context.Context, _ holdfast.Token) (left uint64, err error) {
	err = r.QueryRowContext(ctx, `SELECT left FROM stock WHERE id = 1`).Scan(&left)
	return left, err
}

func (r newerStock) write(ctx context.Context, _ holdfast.Token, left uint64) (bool, error) {
	version := time.Now().UnixNano()
	return changed(ctx, r.DB, `UPDATE stock SET left = ?, version = ? WHERE id = 1 AND ? > version`,
		left, version, version)
}

// A versionedStock accepts an update if the row is still at the version that was read.
type versionedStock struct {
	file
	rows    fence.Versioned
	version int64
}

func (r *versionedStock) read(ctx context.Context, _ holdfast.Token) (left uint64, err error) {
	r.version, err = r.rows.Read(ctx, r.DB, 1, fence.Columns{"left": &left})
	return left, err
}

func (r *versionedStock) write(ctx context.Context, _ holdfast.Token, left uint64) (bool, error) {
	err := r.rows.Update(ctx, r.DB, 1, r.version, fence.Columns{"left": left})
	if errors.Is(err, holdfast.ErrStale) {
		return false, nil
	}
	return err == nil, err
}

var versionGreater = &Rung{
	Number: 12, Name: "version-greater",
	What: "an optimistic update that checks that its version is greater than the row's, instead of equal to what " +
		"it read",
	Seen:    "\"last write wins\", updated_at as a version, caches and synchronisation",
	Promise: "no acknowledged update is lost",
	Story: "A and B both read. B writes with a newer version, then A with one that is newer still. Both are " +
		"accepted.",
	Rule: check.LostUpdate,
	Prevents: "fence.Versioned writes WHERE version = what was read, in one statement, and says with both versions " +
		"why an update was refused.",
	Store: "fence.Versioned", Budget: 10 * time.Second,
	register: func(ctx context.Context, p *part) (register, error) {
		f, err := openFile(ctx, p, stockSchema)
		if p.Holdfast {
			rows := fence.Versioned{Dialect: fence.SQLite, Table: "stock", Key: "id"}
			return &versionedStock{file: f, rows: rows}, err
		}
		return newerStock{f}, err
	},
	schedule: func(s *stage) {
		s.onFile()
		s.stocks(100)
		a, b := s.enter("A"), s.enter("B")
		if s.random.IntN(2) == 0 {
			a, b = b, a
		}
		left := a.reads()
		b.reads()
		s.must(pause(s.ctx, s.millis(0, 20)))
		b.writes(left - 2)
		s.must(pause(s.ctx, s.millis(1, 20)))
		if !a.writes(left - 1) {
			a.writes(a.reads() - 1) // it begins again, with what is there
		}
	},
}

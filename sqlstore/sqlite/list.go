package sqlite

import (
	"context"
	"database/sql"

	"github.com/holdfast-go/holdfast/sqlstore"
)

var (
	_ sqlstore.PageReader = (*engine)(nil)
	_ sqlstore.Versioner  = (*engine)(nil)
)

// ReadPage implements sqlstore.PageReader. Only the first page needs the right to write, for a moment, as the file may
// be from before the machine was started.
func (e *engine) ReadPage(ctx context.Context, prefix, after string, most int) ([]sqlstore.Listed, error) {
	if after == "" {
		if _, err := write(ctx, e, func(*transaction) (struct{}, error) { return struct{}{}, nil }); err != nil {
			return nil, err
		}
	}
	return read(ctx, e, func(tx *transaction) ([]sqlstore.Listed, error) {
		dead := map[string]bool{} // clients that were tested
		return readAll(tx.file,
			`SELECT ticket, id, state, kind, units, capacity, deadline, ttl, grace, since, turn, waits, details,
			name, format, inbox FROM holdfast_claims
			WHERE prefix = ?1 AND name >= ?2 AND substr(name, 1, length(?2)) = ?2 AND name > ?3
			ORDER BY name, seat LIMIT ?4`,
			func(rows *sql.Rows) (sqlstore.Listed, error) { return tx.listed(rows, dead) },
			tx.prefix, prefix, after, most)
	})
}

// mostListed is how many clients of one page are tested for whether they are dead.
const mostListed = 64

// listed reads a claim of a page. One whose client is dead has no time left, so that Queue reads and removes it.
func (tx *transaction) listed(rows *sql.Rows, dead map[string]bool) (c sqlstore.Listed, err error) {
	var name, inbox string
	var written int
	c.Entry, err = tx.scanEntry("", rows, &name, &written, &inbox)
	if c.Name, c.Newer = name, written > format; c.Newer && name != "" {
		return c, nil // only a newer program knows what is in it
	}
	gone, tested := dead[inbox]
	if !tested && len(dead) < mostListed && inbox != tx.engine.notifier.name() {
		gone = tx.engine.notifier.dead(inbox)
		dead[inbox] = gone
	}
	if gone {
		c.Left = 0
	}
	return c, err
}

// Version implements sqlstore.Versioner. The numbers of a file that was opened anew have nothing to do with those
// before.
func (e *engine) Version(ctx context.Context) (sqlstore.Version, error) {
	return read(ctx, e, func(tx *transaction) (v sqlstore.Version, err error) {
		if v.Others, err = tx.version(); err != nil {
			return v, err
		}
		_, err = tx.one("SELECT total_changes()", nil, &v.Own)
		v.Opened = e.opened
		return v, err
	})
}

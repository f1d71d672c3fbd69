package demo

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"
)

const naiveSchema = `CREATE TABLE naive_locks (name TEXT PRIMARY KEY, expires INTEGER NOT NULL)`

// A naive lock is a lock as written in an afternoon: a row that only one client can insert, with a time at which it
// expires, so that a dead holder does not block the others for ever. On Redis it is SET NX PX, and DEL. It works in
// every test in which no holder is slow. Comments name its mistakes.
type naive struct {
	db   *sql.DB
	name string
	ttl  time.Duration
	wall func() time.Time
}

func newNaive(db *sql.DB, name string, ttl time.Duration) *naive {
	return &naive{db, name, ttl, time.Now}
}

func (n *naive) acquire(ctx context.Context) (hold, error) {
	for {
		taken, err := n.try(ctx)
		if err != nil {
			return hold{}, err
		}
		if taken {
			return n.hold(), nil
		}
		// Mistake: waiters poll, and any of them may be next.
		select {
		case <-time.After(time.Millisecond + rand.N(2*time.Millisecond)):
		case <-ctx.Done():
			return hold{}, ctx.Err()
		}
	}
}

func (n *naive) try(ctx context.Context) (taken bool, err error) {
	tx, err := n.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	// Mistake: it uses the wall clock of each client. A client whose clock is ahead takes the lock from a holder that
	// has just acquired it.
	now := n.wall().UnixMilli()
	_, err = tx.ExecContext(ctx, `DELETE FROM naive_locks WHERE name = ? AND expires <= ?`, n.name, now)
	if err != nil {
		return false, err
	}
	// Mistake: the row does not name its holder.
	// Mistake: it is not renewed. Work that takes longer than the ttl continues without the lock.
	done, err := tx.ExecContext(ctx, `INSERT OR IGNORE INTO naive_locks (name, expires) VALUES (?, ?)`,
		n.name, now+n.ttl.Milliseconds())
	if err != nil {
		return false, err
	}
	rows, err := done.RowsAffected()
	if err != nil {
		return false, err
	}
	return rows == 1, tx.Commit()
}

func (n *naive) hold() hold {
	return hold{
		// Mistake: without a fencing token, the stock cannot distinguish a late holder from the rightful one.
		token: 0,
		// Mistake: the holder never checks whether the lock has expired. It believes to hold it until it releases.
		until:   never,
		release: n.release,
	}
}

func (n *naive) release(ctx context.Context) error {
	// Mistake: it deletes the lock even if another client holds it by now. That client continues, a third acquires
	// the lock meanwhile, and the first of the two to finish deletes the other's lock. So one late holder is enough to
	// let two clients in again and again.
	_, err := n.db.ExecContext(ctx, `DELETE FROM naive_locks WHERE name = ?`, n.name)
	return err
}

package demo

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"
)

const naiveSchema = `CREATE TABLE naive_locks (name TEXT PRIMARY KEY, expires INTEGER NOT NULL)`

// A naive lock is what one writes in an afternoon: a row that only one can insert, with a time at which it expires, so
// that a dead holder does not block everyone. On Redis it is SET NX PX, and DEL. It works in every test in which
// nobody is slow. Its mistakes are named where they are made.
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
		// Nobody wakes those who wait: they ask again and again, and the luckiest is next.
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
	// Mistake: time is whoever asks's wall clock. One machine whose clock is ahead takes the lock from a holder
	// who has just begun.
	now := n.wall().UnixMilli()
	if _, err := tx.ExecContext(ctx, `DELETE FROM naive_locks WHERE name = ? AND expires <= ?`, n.name, now); err != nil {
		return false, err
	}
	// Mistake: the row does not say whose it is.
	// Mistake: nobody renews it. Work that takes longer than the ttl goes on without the lock.
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
		// Mistake: what the lock protects cannot tell a late holder from the rightful one without a fencing token.
		token: 0,
		// Mistake: the holder never looks whether its time is over. It believes until it releases.
		until:   never,
		release: n.release,
	}
}

func (n *naive) release(ctx context.Context) error {
	// Mistake: it deletes the lock, whoever has it by now. That one goes on, the next comes in beside him, and the
	// first of the two to finish deletes the other's lock: one late holder is enough to let two in again and again.
	_, err := n.db.ExecContext(ctx, `DELETE FROM naive_locks WHERE name = ?`, n.name)
	return err
}

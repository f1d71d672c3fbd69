package sqlite

import (
	"crypto/rand"
	"fmt"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A transaction has the file for itself.
type transaction struct {
	*file
	engine *engine
	prefix string    // whose names are meant
	now    int64     // since the machine was started, read when nobody else could write any more
	wall   time.Time // for people
	last   uint64    // the last ticket that this transaction gave
	base   int64     // as in the file: see draw
	mark   uint64
	moved  bool      // base or mark must be written
	told   []message // whom to tell once it has happened
}

// A message is news for the client that has this inbox.
type message struct {
	inbox    string
	id       store.ID
	standing store.Standing
}

// newTransaction goes on from BEGIN.
func (e *engine) newTransaction() (*transaction, error) {
	tx := &transaction{file: e.file, engine: e, prefix: e.prefix, now: int64(e.clock.now()), wall: e.wall()}
	if err := tx.heed(); err != nil {
		e.drop() // and with it the transaction
		return nil, e.fault(err)
	}
	return tx, nil
}

// heed reads what the file says of itself. It makes the tables if they are not there, and empties them if they are
// from before the machine was started.
func (tx *transaction) heed() error {
	if err := tx.install(); err != nil {
		return err
	}
	var written int
	var identity, boot string
	found, err := tx.one("SELECT format, identity, boot, base, mark FROM holdfast_meta", nil,
		&written, &identity, &boot, &tx.base, &tx.mark)
	switch {
	case err != nil:
		return err
	case !found:
		return errNoMeta
	case written > format:
		return fmt.Errorf("%w: the file has format %d, and this program knows %d", store.ErrFormat, written, format)
	case boot == tx.engine.clock.boot:
	case identity == tx.engine.adopted:
		// A machine is not started anew under a living process. This file was ours, and is now another machine's.
		return errElsewhere
	default:
		if err := tx.forget(); err != nil {
			return err
		}
	}
	tx.engine.adopted = identity
	return nil
}

// install makes the tables if they are not there.
func (tx *transaction) install() error {
	if tx.installed {
		return nil
	}
	there, err := tx.one("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'holdfast_meta'", nil, new(int))
	if tx.installed = err == nil; err != nil || there {
		return err
	}
	if _, err := tx.conn.ExecContext(always, schema); err != nil {
		return err
	}
	return tx.exec("INSERT INTO holdfast_meta (one, format, identity, boot, base, mark) VALUES (1, ?, ?, '', 0, 0)",
		format, rand.Text())
}

// forget empties the file after the machine was started anew: whoever held then is dead.
func (tx *transaction) forget() error {
	if err := tx.exec("DELETE FROM holdfast_claims WHERE format <= ?", format); err != nil {
		return err
	}
	if err := tx.exec("DELETE FROM holdfast_tombstones"); err != nil {
		return err
	}
	// Tickets go on above all that were given, and not below the clock: so they rise also when the file was lost.
	tx.base = max(int64(tx.mark)+1, tx.wall.UnixMicro()) - time.Duration(tx.now).Microseconds()
	return tx.exec("UPDATE holdfast_meta SET boot = ?, base = ?", tx.engine.clock.boot, tx.base)
}

// serve does the jobs and commits. After an error nothing of it has happened, and the file must be dropped.
func (tx *transaction) serve(jobs []*job) error {
	tx.now = int64(tx.engine.clock.now()) // later than any of them was sent
	for _, j := range jobs {
		if err := j.do(tx); err != nil {
			return err
		}
	}
	if tx.moved {
		if err := tx.exec("UPDATE holdfast_meta SET base = ?, mark = ?", tx.base, tx.mark); err != nil {
			return err
		}
	}
	// The next transaction must find the clock above the tickets of this one. It has been above them for long, but
	// for many tickets drawn in very little time.
	for tx.last != 0 && tx.at(tx.engine.clock.now()) <= tx.last {
		runtime.Gosched()
	}
	return tx.exec("COMMIT")
}

// identity is the file's own name for itself.
func (tx *transaction) identity() (identity string, err error) {
	_, err = tx.one("SELECT identity FROM holdfast_meta", nil, &identity)
	return identity, err
}

// reserve is how far ahead of the clock the mark is set, so that it is seldom written.
const reserve = 10 * time.Second

// at is the ticket of an instant.
func (tx *transaction) at(now time.Duration) uint64 { return uint64(tx.base + now.Microseconds()) }

// draw gives the next ticket: the time since the machine was started, which never goes back and is the same for all
// processes, from a base that was chosen when the file was first used since then. So no counter has to be written for
// each ticket. A floor above it moves the base.
func (tx *transaction) draw(floor uint64) (ticket uint64, ok bool) {
	tx.last = max(tx.at(time.Duration(tx.now)), tx.last+1)
	if floor >= tx.last {
		tx.base += int64(floor + 1 - tx.last)
		tx.last = floor + 1
		tx.moved = true
	}
	if tx.last > tx.mark {
		tx.mark = tx.last + uint64(reserve.Microseconds())
		tx.moved = true
	}
	return tx.last, tx.last <= store.MaxTicket
}

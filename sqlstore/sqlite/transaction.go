package sqlite

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A transaction has the file for itself.
type transaction struct {
	*file
	engine      *engine
	prefix      string    // whose names are meant
	now         int64     // since the machine was started, read when nobody else could write any more
	wall        time.Time // for people, and for tickets
	mark        uint64    // the highest ticket ever given
	messages    []message // whom to tell once it has happened
	deadInboxes []string  // inboxes of dead clients that then have no claims any more
}

// A message is news for the client that has this inbox.
type message struct {
	inbox  string
	id     store.ID
	status store.Status
}

// newTransaction goes on from BEGIN.
func (e *engine) newTransaction() (*transaction, error) {
	tx := e.alone()
	if err := tx.checkMeta(); err != nil {
		e.drop() // and with it the transaction
		return nil, e.fault(err)
	}
	return tx, nil
}

// heed reads what the file says of itself. It makes the tables if they are not there, and empties them if they are
// from before the machine was started.
func (tx *transaction) checkMeta() error {
	if err := tx.install(); err != nil {
		return err
	}
	var written int
	var identity, boot string
	found, err := tx.one("SELECT format, identity, boot, mark FROM holdfast_meta", nil,
		&written, &identity, &boot, &tx.mark)
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
		if err := tx.clearAfterBoot(); err != nil {
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
	return tx.exec("INSERT INTO holdfast_meta (one, format, identity, boot, mark) VALUES (1, ?, ?, '', 0)",
		format, rand.Text())
}

// forget empties the file after the machine was started anew: whoever held then is dead.
func (tx *transaction) clearAfterBoot() error {
	if err := tx.exec("DELETE FROM holdfast_claims WHERE format <= ?", format); err != nil {
		return err
	}
	if err := tx.exec("DELETE FROM holdfast_tombstones"); err != nil {
		return err
	}
	return tx.exec("UPDATE holdfast_meta SET boot = ?", tx.engine.clock.boot)
}

// serve does the jobs and commits. After an error nothing of it has happened, and the file must be dropped.
func (tx *transaction) serve(jobs []*job) error {
	tx.now = int64(tx.engine.clock.now()) // later than any of them was sent
	for _, j := range jobs {
		if err := j.do(tx); err != nil {
			return err
		}
	}
	return tx.exec("COMMIT")
}

// identity is the file's own name for itself.
func (tx *transaction) identity() (identity string, err error) {
	_, err = tx.one("SELECT identity FROM holdfast_meta", nil, &identity)
	return identity, err
}

// draw gives the next ticket: above all that were given, above the floor, and not below the clock, so that it rises also
// when the file was lost. A trigger writes the mark when the claim is written. At the end of all tickets it is not ok.
func (tx *transaction) draw(floor uint64) (ticket uint64, ok bool) {
	tx.mark = max(tx.mark+1, floor+1, uint64(max(tx.wall.UnixMicro(), 0)))
	return tx.mark, tx.mark <= store.MaxTicket
}

package sqlite

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A transaction excludes all other writers of the file.
type transaction struct {
	*file
	engine      *engine
	prefix      string    // of the names
	now         int64     // since the machine was started, read when no other client could write any more
	wall        time.Time // for operators, and for tickets
	mark        uint64    // the highest ticket ever drawn
	messages    []message // to be sent after the commit
	deadInboxes []string  // of dead clients that have no claims left after the commit
}

// A message is the new status of a claim, for the client that has this inbox.
type message struct {
	inbox  string
	id     store.ID
	status store.Status
}

// newTransaction returns the transaction that BEGIN has started.
func (e *engine) newTransaction() (*transaction, error) {
	tx := e.alone()
	if err := tx.checkMeta(); err != nil {
		e.drop() // which rolls the transaction back
		return nil, e.fault(err)
	}
	return tx, nil
}

// checkMeta reads the file's format, identity and start of the machine. It creates missing tables, and empties them if
// they are from before the machine was started.
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
		// A machine is not started again under a living process. Another machine has taken over the file.
		return errElsewhere
	default:
		if err := tx.clearAfterBoot(); err != nil {
			return err
		}
	}
	tx.engine.adopted = identity
	return nil
}

// install creates the tables if they are missing.
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

// clearAfterBoot empties the file after the machine was started again: all earlier holders are dead.
func (tx *transaction) clearAfterBoot() error {
	if err := tx.exec("DELETE FROM holdfast_claims WHERE format <= ?", format); err != nil {
		return err
	}
	if err := tx.exec("DELETE FROM holdfast_tombstones"); err != nil {
		return err
	}
	return tx.exec("UPDATE holdfast_meta SET boot = ?", tx.engine.clock.boot)
}

// serve runs the jobs and commits. After an error nothing has changed, and the file must be dropped.
func (tx *transaction) serve(jobs []*job) error {
	tx.now = int64(tx.engine.clock.now()) // later than any of them was sent
	for _, j := range jobs {
		if err := j.do(tx); err != nil {
			return err
		}
	}
	return tx.exec("COMMIT")
}

// identity returns the random name that the file was given when it was created.
func (tx *transaction) identity() (identity string, err error) {
	_, err = tx.one("SELECT identity FROM holdfast_meta", nil, &identity)
	return identity, err
}

// draw returns the next ticket: above all earlier ones, above the floor, and not below the clock, so that tickets rise
// even if the file was lost. A trigger writes the mark when the claim is written. ok is false above store.MaxTicket.
func (tx *transaction) draw(floor uint64) (ticket uint64, ok bool) {
	tx.mark = max(tx.mark+1, floor+1, uint64(max(tx.wall.UnixMicro(), 0)))
	return tx.mark, tx.mark <= store.MaxTicket
}

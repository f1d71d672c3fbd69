package sqlite

import (
	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/store"
)

// Most locks are taken when nobody else wants them. Then one statement does what takes a transaction five otherwise: a
// statement is a transaction of its own, with the file for itself from its beginning. It does nothing unless the line is
// empty, or has nobody else; the long way then does all of it.
//
// It runs in the caller's goroutine. To hand it to the worker and back would take as long again. The price: while the disk
// itself does not answer, this caller cannot leave. All others can: they find the file in use, and queue.

// beginQuick returns a transaction for a single statement if no other is at the file, and otherwise nil. endQuick must
// follow.
func (e *engine) beginFast() *transaction {
	select {
	case e.turn <- struct{}{}:
	default:
		return nil
	}
	e.mu.Lock()
	first := len(e.jobs) == 0 && !e.closed // no job is overtaken
	e.mu.Unlock()
	now := e.clock.now()
	if e.isContended(now) || !first || e.file == nil || !e.file.installed || !e.file.current(e.path, now) {
		<-e.turn
		return nil
	}
	return e.alone()
}

// endQuick reports whether the statement was all there was to do. If it failed, for whatever reason, the long way finds
// out why.
func (e *engine) endFast(done bool, err error) bool {
	switch {
	case isBusy(err):
		e.lastContended = e.clock.now()
	case err != nil:
		e.drop()
	}
	e.stale = e.stale || done
	<-e.turn
	return err == nil && done
}

// quickJoin puts c into an empty line, and says whether it did. A ticket beyond LastMark is for the long way to judge.
func (tx *transaction) fastJoin(c *store.Claim) (a sqlstore.Result, done bool, err error) {
	if store.FloorTooHigh(c.Floor, tx.wall) {
		return a, false, nil
	}
	values, err := tx.values(c)
	if err != nil {
		return a, false, err
	}
	const ticket = "max(mark + 1, ?16 + 1, ?10)"
	seat := ticket
	if c.Exclusive() {
		seat = "0"
	}
	done, err = tx.one(insertInto+ticket+", "+seat+`, 'held' FROM holdfast_meta
		WHERE format <= ?15 AND boot = ?17 AND `+ticket+` <= ?18
		AND NOT EXISTS (SELECT 1 FROM holdfast_claims WHERE prefix = ?1 AND name = ?2)
		AND NOT EXISTS (SELECT 1 FROM holdfast_tombstones WHERE id = ?3)
		RETURNING ticket`,
		append(values, int64(c.Floor), tx.engine.clock.boot, int64(store.LastMark)), &a.Ticket)
	a.State = store.Held
	return a, done, err
}

// quickLeave takes c out of a line that has nobody else, and says whether it did.
func (tx *transaction) fastLeave(c *store.Claim) (done bool, err error) {
	seat := c.Ticket
	if c.Exclusive() {
		seat = 0
	}
	n, err := tx.execCount(`DELETE FROM holdfast_claims WHERE prefix = ?1 AND name = ?2 AND seat = ?3 AND id = ?4 AND ticket = ?5
		AND format <= ?6 AND (SELECT format FROM holdfast_meta) <= ?6
		AND NOT EXISTS (SELECT 1 FROM holdfast_claims WHERE prefix = ?1 AND name = ?2 AND seat <> ?3)`,
		tx.prefix, c.Name, int64(seat), c.ID.String(), int64(c.Ticket), format)
	return n > 0, err
}

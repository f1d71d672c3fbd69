package sqlite

import (
	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/store"
)

// The fast path. Most locks are acquired without contention. Then one statement does what otherwise takes a transaction
// of five: a statement is a transaction of its own, which excludes all others from its beginning. It changes nothing
// unless the queue is empty, or has no other claim. In all other cases the worker does everything in a transaction.
//
// The fast path runs in the caller's goroutine. Handing the call to the worker and back would double its time. The
// price: while the disk does not respond, this caller does not return when its context is done. All others do: they
// find the file in use, and become jobs.

// beginFast returns a transaction for a single statement, or nil if the file is in use. endFast must follow.
func (e *engine) beginFast() *transaction {
	select {
	case e.turn <- struct{}{}:
	default:
		return nil
	}
	e.mu.Lock()
	first := len(e.jobs) == 0 && !e.closed // so that no job is overtaken
	e.mu.Unlock()
	now := e.clock.now()
	if e.isContended(now) || !first || e.file == nil || !e.file.installed || !e.file.current(e.path, now) {
		<-e.turn
		return nil
	}
	return e.alone()
}

// endFast reports whether the call is complete. If the statement failed, for whatever reason, the worker finds out why.
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

// fastJoin puts c into an empty queue and reports whether it did. A ticket beyond LastMark is left to the worker.
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

// fastLeave removes c from a queue that has no other claim and reports whether it did.
func (tx *transaction) fastLeave(c *store.Claim) (done bool, err error) {
	seat := c.Ticket
	if c.Exclusive() {
		seat = 0
	}
	n, err := tx.execCount(
		`DELETE FROM holdfast_claims WHERE prefix = ?1 AND name = ?2 AND seat = ?3 AND id = ?4 AND ticket = ?5
		AND format <= ?6 AND (SELECT format FROM holdfast_meta) <= ?6
		AND NOT EXISTS (SELECT 1 FROM holdfast_claims WHERE prefix = ?1 AND name = ?2 AND seat <> ?3)`,
		tx.prefix, c.Name, int64(seat), c.ID.String(), int64(c.Ticket), format)
	return n > 0, err
}

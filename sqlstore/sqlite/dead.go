package sqlite

import (
	"database/sql"
	"math/rand/v2"
	"slices"
	"strings"
)

// The kernel knows which processes are dead (see notifier). If no process has the socket of a client open any more, the
// claims of that client are removed as soon as they block another claim, and by the sweep. No other claims are removed
// so: a client that is only stopped, or whose socket is missing, keeps its claims until they expire.

// mostTested bounds how many holders of a queue are tested at once.
const mostTested = 32

// blockers tests the clients that block a queue: the holders, or mostTested of them chosen at random, and the waiters
// up to the first that is alive. However many waiters have died, one call finds them.
func (tx *transaction) blockers(name string) (dead, alive []string, err error) {
	var holders, waiters []string
	err = tx.each("SELECT inbox, state FROM holdfast_claims WHERE prefix = ? AND name = ? ORDER BY seat",
		[]any{tx.prefix, name}, func(rows *sql.Rows) error {
			var inbox, state string
			err := rows.Scan(&inbox, &state)
			if state == "held" {
				holders = append(holders, inbox)
			} else {
				waiters = append(waiters, inbox)
			}
			return err
		})
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(holders)
	holders = slices.Compact(holders)
	rand.Shuffle(len(holders), func(i, j int) { holders[i], holders[j] = holders[j], holders[i] })
	living := map[string]bool{tx.engine.notifier.name(): true}
	test := func(inbox string) (lives bool) {
		lives, tested := living[inbox]
		switch {
		case tested:
			return lives
		case tx.engine.notifier.dead(inbox):
			dead = append(dead, inbox)
		default:
			lives = true
			alive = append(alive, inbox)
		}
		living[inbox] = lives
		return lives
	}
	for _, inbox := range holders[:min(len(holders), mostTested)] {
		test(inbox)
	}
	for _, inbox := range waiters {
		if test(inbox) {
			break
		}
	}
	return dead, alive, nil
}

// removeDeadFrom removes the claims of dead clients that block a queue, with their claims in other queues. It reports
// whether there were any.
func (tx *transaction) removeDeadFrom(name string) (found bool, err error) {
	dead, _, err := tx.blockers(name)
	if err != nil || len(dead) == 0 {
		return false, err
	}
	if err := tx.removeAll(name, list(dead)); err != nil {
		return true, err
	}
	return true, tx.removeDead(dead)
}

// removeDead removes the claims of dead clients, and grants the claims that then fit. It searches for all clients at
// once, since there is no index of inboxes.
func (tx *transaction) removeDead(dead []string) error {
	if len(dead) == 0 {
		return nil
	}
	inboxes := list(dead)
	all, err := tx.eachQueue("inbox IN (SELECT value FROM json_each(?))", inboxes,
		func(name string) error { return tx.removeAll(name, inboxes) })
	if err == nil && all {
		tx.deadInboxes = append(tx.deadInboxes, dead...)
	}
	return err
}

// removeAll removes the claims of clients from a queue, and grants the claims that then fit. The clients are a list of
// their inboxes.
func (tx *transaction) removeAll(name, inboxes string) error {
	// Not from a queue that has a row of a newer format: only newer programs know what leaving means there.
	err := tx.exec(`DELETE FROM holdfast_claims WHERE prefix = ?1 AND name = ?2
		AND inbox IN (SELECT value FROM json_each(?3))
		AND NOT EXISTS (SELECT 1 FROM holdfast_claims WHERE prefix = ?1 AND name = ?2 AND format > ?4)`,
		tx.prefix, name, inboxes, format)
	if err == nil {
		_, err = tx.tidy(name)
	}
	return err
}

// list returns a JSON list of inboxes for a query. Their names are letters and digits (see notifier.at).
func list(inboxes []string) string { return `["` + strings.Join(inboxes, `","`) + `"]` }

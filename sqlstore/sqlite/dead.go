package sqlite

import (
	"database/sql"
	"math/rand/v2"
	"slices"
	"strings"
)

// The kernel knows which processes are dead (see bell). Claims of a client whose socket nobody has open any more are
// removed as soon as they are in another's way, and by the sweep. Nobody else's claim is ever touched for that: a
// client that is only stopped, or whose socket is missing, keeps its claims until their ttl has passed.

// mostTested bounds how many clients that hold one look at a line tests.
const mostTested = 32

// blockers tests the clients that are in the way in a line: all that hold, or so many of them chosen at random, and
// those that wait up to the first that lives. However many have died, they are found in one look.
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

// buryIn removes the dead that are in the way in a line, with all that they had elsewhere. It reports whether there
// were any; they are then not there any more.
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

// bury removes the claims of clients that are dead, and grants those who then fit. All clients are looked for at once:
// there is no index of inboxes.
func (tx *transaction) removeDead(dead []string) error {
	if len(dead) == 0 {
		return nil
	}
	inboxes := list(dead)
	all, err := tx.eachLine("inbox IN (SELECT value FROM json_each(?))", inboxes,
		func(name string) error { return tx.removeAll(name, inboxes) })
	if err == nil && all {
		tx.deadInboxes = append(tx.deadInboxes, dead...)
	}
	return err
}

// removeAll removes the claims of clients from a line, and grants those who then fit. The clients are a list of their
// inboxes.
func (tx *transaction) removeAll(name, inboxes string) error {
	// Not from a line that has anything of a newer format: there only newer programs know what leaving does.
	err := tx.exec(`DELETE FROM holdfast_claims WHERE prefix = ?1 AND name = ?2
		AND inbox IN (SELECT value FROM json_each(?3))
		AND NOT EXISTS (SELECT 1 FROM holdfast_claims WHERE prefix = ?1 AND name = ?2 AND format > ?4)`,
		tx.prefix, name, inboxes, format)
	if err == nil {
		_, err = tx.tidy(name)
	}
	return err
}

// list is a list of inboxes as a query takes it. Their names are letters and digits (see bell.address).
func list(inboxes []string) string { return `["` + strings.Join(inboxes, `","`) + `"]` }

package sqlite

import (
	"database/sql"
	"math/rand/v2"
	"slices"
)

// The kernel knows which processes are dead (see bell). Claims of a client whose socket nobody has open any more are
// removed as soon as they are in another's way, and by the sweep. Nobody else's claim is ever touched for that: a
// client that is only stopped, or whose socket is missing, keeps its claims until their ttl has passed.

// mostTested bounds how many clients one look at a line tests.
const mostTested = 32

// blockers tests the clients that are in the way in a line: all that hold, or so many of them chosen at random, and
// those that wait up to the first that lives.
func (tx *transaction) blockers(name string) (dead, alive []string, err error) {
	var holders, waiters []string
	err = tx.each("SELECT inbox, state FROM holdfast_claims WHERE prefix = ? AND name = ? ORDER BY seat",
		[]any{tx.prefix, name}, func(rows *sql.Rows) error {
			var inbox, state string
			err := rows.Scan(&inbox, &state)
			switch {
			case state == "held":
				holders = append(holders, inbox)
			case len(waiters) < mostTested:
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
	own := tx.engine.bell.name()
	test := func(inbox string) (lives bool) {
		switch {
		case inbox == own:
			return true
		case tx.engine.bell.dead(inbox):
			dead = append(dead, inbox)
			return false
		}
		alive = append(alive, inbox)
		return true
	}
	for _, inbox := range holders[:min(len(holders), mostTested)] {
		test(inbox)
	}
	for _, inbox := range slices.Compact(waiters) {
		if test(inbox) {
			break
		}
	}
	return dead, alive, nil
}

// buryIn removes the dead that are in the way in a line, with all that they had elsewhere. It reports whether there
// were any; they are then not there any more.
func (tx *transaction) buryIn(name string) (found bool, err error) {
	dead, _, err := tx.blockers(name)
	for i := 0; err == nil && i < len(dead); i++ {
		err = tx.removeAll(name, dead[i])
	}
	if err == nil {
		err = tx.bury(dead)
	}
	return len(dead) > 0, err
}

// bury removes the claims of clients that are dead, and grants those who then fit.
func (tx *transaction) bury(dead []string) error {
	for _, inbox := range dead {
		all, err := tx.eachLine("inbox = ?", inbox, func(name string) error { return tx.removeAll(name, inbox) })
		if err != nil {
			return err
		}
		if all {
			tx.buried = append(tx.buried, inbox)
		}
	}
	return nil
}

// removeAll removes the claims of a client from a line, and grants those who then fit.
func (tx *transaction) removeAll(name, inbox string) error {
	// Not from a line that has anything of a newer format: there only newer programs know what leaving does.
	err := tx.exec(`DELETE FROM holdfast_claims WHERE prefix = ?1 AND name = ?2 AND inbox = ?3
		AND NOT EXISTS (SELECT 1 FROM holdfast_claims WHERE prefix = ?1 AND name = ?2 AND format > ?4)`,
		tx.prefix, name, inbox, format)
	if err == nil {
		_, err = tx.tidy(name)
	}
	return err
}

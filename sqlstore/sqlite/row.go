package sqlite

import (
	"database/sql"
	"encoding/json"
	"time"

	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/store"
)

// A row has the columns of a claim that decide about grants.
type row struct {
	seat, ticket uint64
	id           string
	state        string
	kind         string
	units, limit int32
	inbox        string
	shrunk       bool // its owner has just reduced its units
}

func (r *row) demand() store.Demand {
	return store.Demand{Kind: kindOf(r.kind), Units: r.units, Limit: r.limit}
}

func kindOf(word string) store.Kind {
	switch word {
	case store.Lock.String():
		return store.Lock
	case store.Semaphore.String():
		return store.Semaphore
	}
	return 0
}

func stateOf(word string) store.State {
	if word == store.Held.String() {
		return store.Held
	}
	return store.Waiting
}

// claim is the part of a query that selects one claim of a queue. If the ticket is known, the claim is searched for at
// the two seats that it can have, otherwise in the whole queue.
const (
	claim       = " FROM holdfast_claims WHERE prefix = ?1 AND name = ?2 AND id = ?3 AND format <= ?4"
	claimSeated = claim + " AND seat = ?5"
)

// pick runs a query that ends in claim until it finds the claim.
func (tx *transaction) pick(c *store.Claim, run func(where string, args []any) (bool, error)) (found bool, err error) {
	args := []any{tx.prefix, c.Name, c.ID.String(), format}
	if c.Ticket == 0 {
		return run(claim, args)
	}
	found, err = run(claimSeated, append(args, 0))
	if err == nil && !found {
		found, err = run(claimSeated, append(args, int64(c.Ticket)))
	}
	return found, err
}

// find reads a claim.
func (tx *transaction) find(c *store.Claim) (r row, found bool, err error) {
	found, err = tx.pick(c, func(where string, args []any) (bool, error) {
		return tx.one("SELECT seat, ticket, state, kind, units, capacity"+where, args,
			&r.seat, &r.ticket, &r.state, &r.kind, &r.units, &r.limit)
	})
	return r, found, err
}

// remove deletes a claim and reports whether it existed.
func (tx *transaction) remove(c *store.Claim) (bool, error) {
	return tx.pick(c, func(where string, args []any) (bool, error) {
		// Not in a queue that has a row of a newer format: only newer programs know what leaving means there.
		n, err := tx.execCount("DELETE"+where+` AND NOT EXISTS
			(SELECT 1 FROM holdfast_claims WHERE prefix = ?1 AND name = ?2 AND format > ?4)`, args...)
		return n > 0, err
	})
}

// values returns the columns of a claim that joins, except its ticket, seat and state.
func (tx *transaction) values(c *store.Claim) ([]any, error) {
	waits, details, err := tx.texts(c)
	return []any{
		tx.prefix, c.Name, c.ID.String(), c.Kind.String(), c.Units, c.Limit, tx.deadline(c), int64(c.TTL),
		int64(c.Grace), tx.wall.UnixMicro(), c.Turn, tx.engine.notifier.name(), waits, details, format,
	}, err
}

// insertInto takes those values as ?1 to ?15; what follows gives ticket, seat and state.
const insertInto = `INSERT INTO holdfast_claims (prefix, name, id, kind, units, capacity, deadline, ttl, grace,
	since, turn, inbox, waits, details, format, ticket, seat, state)
	SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, `

// insert writes a claim with the ticket and state of its result.
func (tx *transaction) insert(c *store.Claim, seat uint64, a *sqlstore.Result) error {
	values, err := tx.values(c)
	if err != nil {
		return err
	}
	return tx.exec(insertInto+"?16, ?17, ?18", append(values, a.Ticket, seat, a.State.String())...)
}

// renew updates a claim with the values of its owner. The units may decrease, never increase (rule 6).
func (tx *transaction) renew(r *row, c *store.Claim) error {
	waits, details, err := tx.texts(c)
	if err != nil {
		return err
	}
	seat := r.seat
	if r.shrunk = c.Units < r.units; r.shrunk {
		r.units, seat = c.Units, r.ticket
	}
	err = tx.exec(`UPDATE holdfast_claims SET seat = ?, units = ?, deadline = ?, ttl = ?, grace = ?, turn = ?,
		inbox = ?, waits = ?, details = ? WHERE prefix = ? AND name = ? AND seat = ?`,
		seat, r.units, tx.deadline(c), int64(c.TTL), int64(c.Grace), c.Turn,
		tx.engine.notifier.name(), waits, details, tx.prefix, c.Name, r.seat)
	r.seat = seat
	return err
}

// detach makes r a claim of no client that expires after d, or later if it is one that expires later. Its owner stays,
// and waits for nothing any more.
func (tx *transaction) detach(r *row, c *store.Claim, as store.ID, d time.Duration) error {
	deadline := tx.now + int64(d)
	return tx.exec(`UPDATE holdfast_claims SET id = ?, deadline = ?, ttl = ?, grace = 0, inbox = '', waits = ''
		WHERE prefix = ? AND name = ? AND seat = ? AND (id <> ? OR deadline < ?)`,
		as.String(), deadline, int64(d), tx.prefix, c.Name, r.seat, as.String(), deadline)
}

// attach makes r the claim c of this client, with the units that r has.
func (tx *transaction) attach(r *row, c *store.Claim) error {
	same := *c
	same.Units = r.units
	if err := tx.renew(r, &same); err != nil {
		return err
	}
	return tx.exec("UPDATE holdfast_claims SET id = ? WHERE prefix = ? AND name = ? AND seat = ?",
		c.ID.String(), tx.prefix, c.Name, r.seat)
}

func (tx *transaction) deadline(c *store.Claim) int64 { return tx.now + int64(c.TTL) + int64(c.Grace) }

// entries returns the first claims of a queue, or all of them if most is -1.
func (tx *transaction) entries(name string, most int) ([]store.Entry, error) {
	return readAll(tx.file,
		`SELECT ticket, id, state, kind, units, capacity, deadline, ttl, grace, since, turn, waits, details
		FROM holdfast_claims WHERE prefix = ? AND name = ? ORDER BY seat LIMIT ?`,
		func(rows *sql.Rows) (store.Entry, error) { return tx.scanEntry(name, rows) }, tx.prefix, name, most)
}

// scanEntry reads an entry from a row of those columns, and what follows them into more.
func (tx *transaction) scanEntry(name string, rows *sql.Rows, more ...any) (p store.Entry, err error) {
	var id, state, kind, waits, details string
	var deadline, since int64
	p.Name, p.Owner = name, &store.Owner{}
	err = rows.Scan(append([]any{&p.Ticket, &id, &state, &kind, &p.Units, &p.Limit, &deadline, &p.TTL, &p.Grace, &since,
		&p.Turn, &waits, &details}, more...)...)
	if err != nil {
		return p, err
	}
	if err := p.ID.UnmarshalText([]byte(id)); err != nil {
		return p, err
	}
	if waits != "" {
		if err := json.Unmarshal([]byte(waits), &p.Waits); err != nil {
			return p, err
		}
	}
	if err := json.Unmarshal([]byte(details), p.Owner); err != nil {
		return p, err
	}
	p.Kind, p.State = kindOf(kind), stateOf(state)
	p.Since, p.Left = time.UnixMicro(since), time.Duration(deadline-tx.now)
	return p, nil
}

// texts returns the parts of a claim that are written as JSON. The text of the last owner is kept: owners do not
// change, and the next claim mostly has the same.
func (tx *transaction) texts(c *store.Claim) (waits, details string, err error) {
	if len(c.Waits) > 0 {
		text, err := json.Marshal(c.Waits)
		if err != nil {
			return "", "", err
		}
		waits = string(text)
	}
	f := tx.file
	if c.Owner != f.owner {
		text, err := json.Marshal(c.Owner)
		if err != nil {
			return "", "", err
		}
		f.owner, f.details = c.Owner, string(text)
	}
	return waits, f.details, nil
}

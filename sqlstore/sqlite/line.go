package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/line"
	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/store"
)

// A tally is what there is to know of a line as a whole.
type tally struct {
	head     store.Ask // kind and limit, which all of a line have in common
	count    int
	held     int
	used     int64
	earliest int64 // deadline
	newer    bool  // something in it is of a newer format
}

// count reads the tally of a line. Most lines are empty, and to see that costs a quarter of counting.
func (tx *transaction) count(name string) (t tally, err error) {
	args := []any{tx.prefix, name}
	some, err := tx.one("SELECT 1 FROM holdfast_claims WHERE prefix = ? AND name = ? LIMIT 1", args, new(int))
	if err != nil || !some {
		return t, err
	}
	var kind string
	var newest int64
	_, err = tx.one(`SELECT count(*), sum(state = 'held'), sum(CASE state WHEN 'held' THEN units ELSE 0 END),
		min(deadline), max(kind), max(capacity), max(format) FROM holdfast_claims WHERE prefix = ? AND name = ?`, args,
		&t.count, &t.held, &t.used, &t.earliest, &kind, &t.head.Limit, &newest)
	t.newer = newest > format
	t.head.Kind = kindOf(kind)
	return t, err
}

// tidy removes what is out of a line, grants whoever then fits, and reads the tally of what is left.
func (tx *transaction) tidy(name string) (t tally, err error) {
	if t, err = tx.count(name); err != nil || t.count == 0 || t.newer {
		return t, err
	}
	if t.earliest <= tx.now {
		if err := tx.expire(name); err != nil {
			return t, err
		}
		if t, err = tx.count(name); err != nil {
			return t, err
		}
	}
	err = tx.settle(name, &t)
	return t, err
}

// expire removes what is out, and says so to whom it was: a process that is dead leaves a socket to be removed.
func (tx *transaction) expire(name string) error {
	return tx.each("DELETE FROM holdfast_claims WHERE prefix = ? AND name = ? AND deadline <= ? RETURNING ticket, id, inbox",
		[]any{tx.prefix, name, tx.now}, func(rows *sql.Rows) error {
			var ticket uint64
			var id, inbox string
			err := rows.Scan(&ticket, &id, &inbox)
			tx.tell(inbox, id, store.Standing{State: store.Gone, Ticket: ticket})
			return err
		})
}

// settle grants all who fit and notes whom to tell.
func (tx *transaction) settle(name string, t *tally) error {
	prefix := line.Resume(t.head, t.held, t.used)
	for t.held < t.count {
		var next row
		var id string
		found, err := tx.one(`SELECT seat, ticket, id, kind, units, capacity, inbox FROM holdfast_claims
			WHERE prefix = ? AND name = ? AND state = 'waiting' ORDER BY seat LIMIT 1`, []any{tx.prefix, name},
			&next.seat, &next.ticket, &id, &next.kind, &next.units, &next.limit, &next.inbox)
		if err != nil || !found || !prefix.Admit(next.ask()) {
			return err
		}
		seat := next.ticket
		if next.ask().Exclusive() {
			seat = 0
		}
		err = tx.exec("UPDATE holdfast_claims SET state = 'held', seat = ?, since = ? WHERE prefix = ? AND name = ? AND seat = ?",
			seat, tx.wall.UnixMicro(), tx.prefix, name, next.seat)
		if err != nil {
			return err
		}
		t.held++
		t.used += int64(next.units)
		tx.tell(next.inbox, id, store.Standing{State: store.Held, Ticket: next.ticket})
	}
	return nil
}

func (tx *transaction) tell(inbox, id string, standing store.Standing) {
	m := message{inbox: inbox, standing: standing}
	if err := m.id.UnmarshalText([]byte(id)); err == nil {
		tx.told = append(tx.told, m)
	}
}

// Join implements sqlstore.Engine.
func (e *engine) Join(ctx context.Context, c *store.Claim) (sqlstore.Answer, error) {
	return said(ask(ctx, e, func(tx *transaction) (sqlstore.Answer, error) { return tx.join(c) }))
}

// said brings an answer's own error to the caller. It undid nothing.
func said(a sqlstore.Answer, err error) (sqlstore.Answer, error) {
	if err == nil {
		err = a.Err
	}
	return a, err
}

func (tx *transaction) join(c *store.Claim) (a sqlstore.Answer, err error) {
	t, err := tx.tidy(c.Name)
	if err != nil || t.newer {
		return sqlstore.Answer{Err: newer(t)}, err
	}
	if t.count > 0 {
		if r, found, err := tx.find(c); err != nil || found {
			if err == nil {
				err = tx.prolong(&r, c)
			}
			return tx.answer(&r), err
		}
	}
	buried, err := tx.heed(c.ID)
	switch {
	case err != nil || buried:
		return sqlstore.Answer{}, err
	case c.Floor > tx.mark && store.FloorTooHigh(c.Floor, tx.wall), // one of its own is never too high
		tx.mark >= store.MaxTicket-uint64(reserve.Microseconds()):
		return sqlstore.Answer{Err: store.ErrFloor}, nil
	case t.count > 0 && line.Mismatch(t.head, c.Ask):
		return sqlstore.Answer{Err: store.ErrMismatch}, nil
	}
	prefix := line.Resume(t.head, t.held, t.used)
	fits := t.held == t.count && prefix.Admit(c.Ask)
	if c.Try && !fits {
		return tx.refuse(c, &t)
	}
	return tx.admit(c, &t, fits)
}

// refuse answers a Try that does not fit, with who is in the way.
func (tx *transaction) refuse(c *store.Claim, t *tally) (sqlstore.Answer, error) {
	a := sqlstore.Answer{Ahead: t.count}
	places, err := tx.places(c.Name, 1)
	if len(places) > 0 {
		a.Holder = &places[0]
	}
	return a, err
}

// admit draws the ticket and gives c its place.
func (tx *transaction) admit(c *store.Claim, t *tally, fits bool) (sqlstore.Answer, error) {
	a := sqlstore.Answer{State: store.Waiting, Ticket: tx.draw(c.Floor), Ahead: t.count}
	seat := a.Ticket
	if fits {
		a.State = store.Held
		if c.Exclusive() {
			seat = 0
		}
	} else {
		a.Opens = max(time.Duration(t.earliest-tx.now), 1)
	}
	err := tx.insert(c, seat, &a)
	return a, err
}

// Keep implements sqlstore.Engine.
func (e *engine) Keep(ctx context.Context, cs []store.Claim) ([]sqlstore.Answer, error) {
	cs = slices.Clone(cs) // a job whose caller has gone must not read what is the caller's again
	return ask(ctx, e, func(tx *transaction) ([]sqlstore.Answer, error) {
		answers := make([]sqlstore.Answer, len(cs))
		for i := range cs {
			var err error
			if answers[i], err = tx.keep(&cs[i]); err != nil {
				return nil, err
			}
		}
		return answers, nil
	})
}

func (tx *transaction) keep(c *store.Claim) (sqlstore.Answer, error) {
	t, err := tx.tidy(c.Name)
	if err != nil || t.newer {
		return sqlstore.Answer{Err: newer(t)}, err
	}
	r, found, err := tx.find(c)
	if err != nil || !found {
		return sqlstore.Answer{}, err
	}
	if err := tx.prolong(&r, c); err != nil {
		return sqlstore.Answer{}, err
	}
	if r.shrunk {
		if _, err := tx.tidy(c.Name); err != nil {
			return sqlstore.Answer{}, err
		}
		if r, _, err = tx.find(c); err != nil {
			return sqlstore.Answer{}, err
		}
	}
	a := tx.answer(&r)
	if a.State == store.Waiting {
		a.Opens, err = tx.opens(c.Name, r.seat)
	}
	return a, err
}

// opens is how long it takes until something ahead of a seat can run out.
func (tx *transaction) opens(name string, seat uint64) (time.Duration, error) {
	var earliest sql.NullInt64
	_, err := tx.one("SELECT min(deadline) FROM holdfast_claims WHERE prefix = ? AND name = ? AND seat < ?",
		[]any{tx.prefix, name, seat}, &earliest)
	if !earliest.Valid {
		return 0, err
	}
	return max(time.Duration(earliest.Int64-tx.now), 1), err
}

// Leave implements sqlstore.Engine.
func (e *engine) Leave(ctx context.Context, c *store.Claim) error {
	_, err := said(ask(ctx, e, func(tx *transaction) (sqlstore.Answer, error) { return tx.leave(c) }))
	return err
}

func (tx *transaction) leave(c *store.Claim) (sqlstore.Answer, error) {
	found, err := tx.remove(c)
	if err != nil {
		return sqlstore.Answer{}, err
	}
	t, err := tx.tidy(c.Name)
	if err == nil && !t.newer && !found && c.Ticket == 0 {
		err = tx.exec(`INSERT INTO holdfast_tombstones (id, prefix, name, deadline) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			c.ID.String(), tx.prefix, c.Name, tx.now+int64(c.TTL))
	}
	return sqlstore.Answer{Err: newer(t)}, err
}

// Break implements sqlstore.Engine.
func (e *engine) Break(ctx context.Context, name string, ticket uint64) error {
	_, err := said(ask(ctx, e, func(tx *transaction) (sqlstore.Answer, error) { return tx.breakTicket(name, ticket) }))
	return err
}

func (tx *transaction) breakTicket(name string, ticket uint64) (sqlstore.Answer, error) {
	t, err := tx.tidy(name)
	if err != nil || t.newer {
		return sqlstore.Answer{Err: newer(t)}, err
	}
	var id, inbox string
	found, err := tx.one("DELETE FROM holdfast_claims WHERE prefix = ? AND name = ? AND ticket = ? RETURNING id, inbox",
		[]any{tx.prefix, name, int64(ticket)}, &id, &inbox)
	if err != nil {
		return sqlstore.Answer{}, err
	}
	if !found {
		return sqlstore.Answer{Err: store.ErrNotHeld}, nil
	}
	tx.tell(inbox, id, store.Standing{State: store.Gone, Ticket: ticket})
	_, err = tx.tidy(name)
	return sqlstore.Answer{}, err
}

// Look implements sqlstore.Engine.
func (e *engine) Look(ctx context.Context, waiting []store.Claim) ([]sqlstore.Answer, error) {
	return ask(ctx, e, func(tx *transaction) ([]sqlstore.Answer, error) {
		answers := make([]sqlstore.Answer, len(waiting))
		tidied := map[string]bool{}
		for i := range waiting {
			c := &waiting[i]
			if !tidied[c.Name] {
				if _, err := tx.tidy(c.Name); err != nil {
					return nil, err
				}
				tidied[c.Name] = true
			}
			r, found, err := tx.find(c)
			if err != nil {
				return nil, err
			}
			if found {
				answers[i] = tx.answer(&r)
			}
		}
		return answers, nil
	})
}

// Line implements sqlstore.Engine.
func (e *engine) Line(ctx context.Context, name string) (store.Line, error) {
	type answer struct {
		places  []store.Place
		refused error
	}
	a, err := ask(ctx, e, func(tx *transaction) (a answer, err error) {
		t, err := tx.tidy(name)
		if err != nil || t.newer {
			return answer{refused: newer(t)}, err
		}
		a.places, err = tx.places(name, -1)
		return a, err
	})
	return store.Line{Name: name, Places: a.places}, cmp.Or(err, a.refused)
}

// Names implements sqlstore.Engine.
func (e *engine) Names(ctx context.Context, prefix string) ([]string, error) {
	return ask(ctx, e, func(tx *transaction) (names []string, err error) {
		err = tx.each(`SELECT DISTINCT name FROM holdfast_claims
			WHERE prefix = ?1 AND substr(name, 1, length(?2)) = ?2 AND deadline > ?3`,
			[]any{tx.prefix, prefix, tx.now}, func(rows *sql.Rows) error {
				var name string
				err := rows.Scan(&name)
				names = append(names, name)
				return err
			})
		return names, err
	})
}

// Sweep implements sqlstore.Engine.
func (e *engine) Sweep(ctx context.Context) error {
	_, err := ask(ctx, e, (*transaction).sweep)
	return err
}

// mostSwept bounds how many lines one sweep tidies, so that others get their turn.
const mostSwept = 1000

// sweep removes what is out in lines of all prefixes.
func (tx *transaction) sweep() (struct{}, error) {
	type resource struct{ prefix, name string }
	var out []resource
	err := tx.each("SELECT DISTINCT prefix, name FROM holdfast_claims WHERE deadline <= ? AND format <= ? LIMIT ?",
		[]any{tx.now, format, mostSwept}, func(rows *sql.Rows) error {
			var r resource
			err := rows.Scan(&r.prefix, &r.name)
			out = append(out, r)
			return err
		})
	if err != nil {
		return struct{}{}, err
	}
	own := tx.prefix
	defer func() { tx.prefix = own }()
	for _, r := range out {
		tx.prefix = r.prefix
		if _, err := tx.tidy(r.name); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, tx.exec("DELETE FROM holdfast_tombstones WHERE deadline <= ?", tx.now)
}

func newer(t tally) error {
	if t.newer {
		return store.ErrFormat
	}
	return nil
}

package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/grant"
)

// A tally describes a queue as a whole.
type tally struct {
	head     store.Demand // kind and limit of the first claim
	count    int
	held     int
	used     int64
	earliest int64 // deadline
	newer    bool  // it has a row of a newer format
}

// count returns the tally of a queue.
func (tx *transaction) count(name string) (t tally, err error) {
	var kind string
	var least int32
	var newest int64
	_, err = tx.one(
		`SELECT count(*), ifnull(sum(state = 'held'), 0), ifnull(sum(CASE state WHEN 'held' THEN units END), 0),
		ifnull(min(deadline), 0), ifnull(max(kind), ''), ifnull(max(capacity), 0), ifnull(min(capacity), 0),
		ifnull(max(format), 0) FROM holdfast_claims WHERE prefix = ? AND name = ?`,
		[]any{tx.prefix, name},
		&t.count, &t.held, &t.used, &t.earliest, &kind, &t.head.Limit, &least, &newest)
	if err == nil && least < t.head.Limit { // claims with AnyLimit have joined
		_, err = tx.one("SELECT capacity FROM holdfast_claims WHERE prefix = ? AND name = ? ORDER BY seat LIMIT 1",
			[]any{tx.prefix, name}, &t.head.Limit)
	}
	t.newer = newest > format
	t.head.Kind = kindOf(kind)
	return t, err
}

// exists reports whether a queue has claims, and whether a claim has a tombstone. Most queues are empty, and finding
// that out costs a quarter of counting.
func (tx *transaction) exists(name string, id store.ID) (some, buried bool, err error) {
	_, err = tx.one(`SELECT EXISTS (SELECT 1 FROM holdfast_claims WHERE prefix = ? AND name = ?),
		EXISTS (SELECT 1 FROM holdfast_tombstones WHERE id = ? AND deadline > ?)`,
		[]any{tx.prefix, name, id.String(), tx.now}, &some, &buried)
	return some, buried, err
}

// tidy removes expired claims from a queue, grants the claims that then fit, and returns the tally of what is left.
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
	err = tx.grantFitting(name, &t)
	return t, err
}

// expire removes expired claims and notifies their clients. If a client is dead, deliver then removes its socket.
func (tx *transaction) expire(name string) error {
	return tx.each(
		"DELETE FROM holdfast_claims WHERE prefix = ? AND name = ? AND deadline <= ? RETURNING ticket, id, inbox",
		[]any{tx.prefix, name, tx.now},
		func(rows *sql.Rows) error {
			var ticket uint64
			var id, inbox string
			err := rows.Scan(&ticket, &id, &inbox)
			tx.notify(inbox, id, store.Status{State: store.Gone, Ticket: ticket})
			return err
		},
	)
}

// grantFitting grants the next claims that fit, and notifies their clients.
func (tx *transaction) grantFitting(name string, t *tally) error {
	prefix := grant.Resume(t.head, t.held, t.used)
	next := row{}
	for t.held < t.count {
		found, err := tx.nextWaiting(name, &next)
		if err != nil || !found || !prefix.Admit(next.demand()) {
			return err
		}
		seat := next.ticket
		if next.demand().Exclusive() {
			seat = 0
		}
		err = tx.exec(
			"UPDATE holdfast_claims SET state = 'held', seat = ?, since = ? WHERE prefix = ? AND name = ? AND seat = ?",
			seat, tx.wall.UnixMicro(), tx.prefix, name, next.seat)
		if err != nil {
			return err
		}
		t.held++
		t.used += int64(next.units)
		tx.notify(next.inbox, next.id, store.Status{State: store.Held, Ticket: next.ticket})
	}
	return nil
}

// nextWaiting reads the first waiting claim behind r's seat into r.
func (tx *transaction) nextWaiting(name string, r *row) (bool, error) {
	return tx.one(`SELECT seat, ticket, id, kind, units, capacity, inbox FROM holdfast_claims
		WHERE prefix = ? AND name = ? AND seat > ? AND state = 'waiting' ORDER BY seat LIMIT 1`,
		[]any{tx.prefix, name, r.seat},
		&r.seat, &r.ticket, &r.id, &r.kind, &r.units, &r.limit, &r.inbox)
}

func (tx *transaction) notify(inbox, id string, status store.Status) {
	m := message{inbox: inbox, status: status}
	if err := m.id.UnmarshalText([]byte(id)); err == nil {
		tx.messages = append(tx.messages, m)
	}
}

// Join implements sqlstore.Engine.
func (e *engine) Join(ctx context.Context, c *store.Claim) (sqlstore.Result, error) {
	e.Listen() // before anything is written: by its socket other clients find out whether this one lives
	if tx := e.beginFast(); tx != nil {
		a, done, err := tx.fastJoin(c)
		if e.endFast(done, err) {
			return a, nil
		}
	}
	return e.step(ctx, func(tx *transaction) (sqlstore.Result, error) { return tx.join(c) })
}

// step is write for one claim. The error of its result, which has rolled nothing back, becomes the error of the call.
func (e *engine) step(ctx context.Context, do func(*transaction) (sqlstore.Result, error)) (sqlstore.Result, error) {
	a, err := write(ctx, e, do)
	return a, cmp.Or(err, a.Err)
}

func (tx *transaction) join(c *store.Claim) (sqlstore.Result, error) {
	some, buried, err := tx.exists(c.Name, c.ID)
	if err != nil {
		return sqlstore.Result{}, err
	}
	var t tally
	if some {
		var r row
		var found bool
		if t, err = tx.tidy(c.Name); err != nil || t.newer {
			return sqlstore.Result{Err: newer(t)}, err
		}
		if r, found, err = tx.find(c); err == nil && found {
			err = tx.renew(&r, c)
		}
		if err != nil || found {
			return tx.result(c.Name, &r, err)
		}
	}
	prefix := grant.Resume(t.head, t.held, t.used)
	fits := t.held == t.count && prefix.Admit(c.Demand)
	if t.count > 0 && !fits {
		found, err := tx.removeDeadFrom(c.Name)
		if err != nil {
			return sqlstore.Result{}, err
		}
		if found {
			return tx.join(c) // no dead client is found twice
		}
	}
	switch {
	case buried:
		return sqlstore.Result{}, nil
	case c.Floor > tx.mark && store.FloorTooHigh(c.Floor, tx.wall): // a floor up to the mark is never too high
		return sqlstore.Result{Err: store.ErrFloor}, nil
	case store.MarkTooHigh(tx.mark, tx.wall):
		err := store.BadMark("holdfast_meta.mark in "+tx.engine.String(), strconv.FormatUint(tx.mark, 10))
		return sqlstore.Result{Err: err}, nil
	case t.count > 0 && grant.Mismatch(t.head, c.Demand, c.AnyLimit):
		return sqlstore.Result{Err: &store.MismatchError{InUse: t.head}}, nil
	}
	if c.Try && !fits {
		return tx.refuse(c, &t)
	}
	return tx.admit(c, &t, fits)
}

// refuse returns the result of a Try that does not fit, with the claim that blocks it.
func (tx *transaction) refuse(c *store.Claim, t *tally) (sqlstore.Result, error) {
	a := sqlstore.Result{Ahead: t.count}
	places, err := tx.entries(c.Name, 1)
	if len(places) > 0 {
		a.Holder = &places[0]
	}
	return a, err
}

// admit draws the ticket and inserts c into the queue.
func (tx *transaction) admit(c *store.Claim, t *tally, fits bool) (sqlstore.Result, error) {
	ticket, ok := tx.draw(c.Floor)
	if !ok {
		return sqlstore.Result{Err: store.ErrFloor}, nil
	}
	a := sqlstore.Result{State: store.Waiting, Ticket: ticket, Ahead: t.count}
	seat := ticket
	if fits {
		a.State = store.Held
		if c.Exclusive() {
			seat = 0
		}
	} else {
		a.RecheckIn = max(time.Duration(t.earliest-tx.now), 1)
	}
	err := tx.insert(c, seat, &a)
	return a, err
}

// Keep implements sqlstore.Engine.
func (e *engine) Keep(ctx context.Context, cs []store.Claim) ([]sqlstore.Result, error) {
	cs = slices.Clone(cs) // an abandoned job must not read the caller's slice
	return write(ctx, e, func(tx *transaction) ([]sqlstore.Result, error) {
		answers := make([]sqlstore.Result, len(cs))
		tidied := map[string]tally{}
		for i := range cs {
			var err error
			if answers[i], err = tx.keep(&cs[i], tidied); err != nil {
				return nil, err
			}
		}
		return answers, nil
	})
}

// keep keeps one claim. A queue that was tidied for another claim of the same call is not tidied again.
func (tx *transaction) keep(c *store.Claim, tidied map[string]tally) (sqlstore.Result, error) {
	t, done := tidied[c.Name]
	var err error
	if !done {
		t, err = tx.tidy(c.Name)
		tidied[c.Name] = t
	}
	if err != nil || t.newer {
		return sqlstore.Result{Err: newer(t)}, err
	}
	r, found, err := tx.find(c)
	if err != nil || !found {
		return sqlstore.Result{}, err
	}
	if err = tx.renew(&r, c); err == nil && r.shrunk {
		if _, err = tx.tidy(c.Name); err == nil {
			r, _, err = tx.find(c)
		}
	}
	return tx.result(c.Name, &r, err)
}

// result returns the result for a claim that was kept, with the time until something ahead of it can expire.
func (tx *transaction) result(name string, r *row, err error) (sqlstore.Result, error) {
	a := sqlstore.Result{State: stateOf(r.state), Ticket: r.ticket, Ahead: -1}
	if err != nil || a.State != store.Waiting {
		return a, err
	}
	var earliest sql.NullInt64
	_, err = tx.one("SELECT min(deadline) FROM holdfast_claims WHERE prefix = ? AND name = ? AND seat < ?",
		[]any{tx.prefix, name, r.seat}, &earliest)
	if earliest.Valid {
		a.RecheckIn = max(time.Duration(earliest.Int64-tx.now), 1)
	}
	return a, err
}

// Leave implements sqlstore.Engine.
func (e *engine) Leave(ctx context.Context, c *store.Claim) error {
	if tx := e.beginFast(); tx != nil && e.endFast(tx.fastLeave(c)) {
		return nil
	}
	_, err := e.step(ctx, func(tx *transaction) (sqlstore.Result, error) { return tx.leave(c) })
	return err
}

func (tx *transaction) leave(c *store.Claim) (sqlstore.Result, error) {
	found, err := tx.remove(c)
	if err != nil {
		return sqlstore.Result{}, err
	}
	some, _, err := tx.exists(c.Name, store.ID{})
	var t tally
	if err == nil && some {
		t, err = tx.tidy(c.Name)
	}
	if err == nil && !t.newer && !found && c.Ticket == 0 {
		err = tx.exec(
			`INSERT INTO holdfast_tombstones (id, prefix, name, deadline) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			c.ID.String(), tx.prefix, c.Name, tx.now+int64(c.TTL))
	}
	return sqlstore.Result{Err: newer(t)}, err
}

// Detach implements sqlstore.Engine. A detached claim has no inbox: it does not end with its client.
func (e *engine) Detach(ctx context.Context, c *store.Claim, as store.ID, d time.Duration) (sqlstore.Result, error) {
	return e.step(ctx, func(tx *transaction) (sqlstore.Result, error) {
		return tx.transfer(c, c.ID, as, func(r *row) error { return tx.detach(r, c, as, d) })
	})
}

// Attach implements sqlstore.Engine.
func (e *engine) Attach(ctx context.Context, c *store.Claim, from store.ID) (sqlstore.Result, error) {
	e.Listen() // as in Join
	return e.step(ctx, func(tx *transaction) (sqlstore.Result, error) {
		return tx.transfer(c, from, c.ID, func(r *row) error { return tx.attach(r, c) })
	})
}

// transfer calls rename with the claim to or, if that is not in the queue and has no tombstone, with the claim from. A
// claim that is not held is not transferred.
func (tx *transaction) transfer(c *store.Claim, from, to store.ID, rename func(*row) error) (sqlstore.Result, error) {
	t, err := tx.tidy(c.Name)
	if err != nil || t.newer {
		return sqlstore.Result{Err: newer(t)}, err
	}
	r, found, err := tx.find(&store.Claim{Name: c.Name, ID: to})
	if err == nil && !found {
		var buried bool
		if _, buried, err = tx.exists(c.Name, to); err == nil && !buried {
			r, found, err = tx.find(&store.Claim{Name: c.Name, ID: from})
		}
	}
	if err != nil || !found || stateOf(r.state) != store.Held {
		return sqlstore.Result{}, err
	}
	return sqlstore.Result{State: store.Held, Ticket: r.ticket, Ahead: -1}, rename(&r)
}

// Break implements sqlstore.Engine.
func (e *engine) Break(ctx context.Context, name string, ticket uint64) error {
	_, err := e.step(ctx, func(tx *transaction) (sqlstore.Result, error) { return tx.breakTicket(name, ticket) })
	return err
}

func (tx *transaction) breakTicket(name string, ticket uint64) (sqlstore.Result, error) {
	t, err := tx.tidy(name)
	if err != nil || t.newer {
		return sqlstore.Result{Err: newer(t)}, err
	}
	var id, inbox string
	found, err := tx.one("DELETE FROM holdfast_claims WHERE prefix = ? AND name = ? AND ticket = ? RETURNING id, inbox",
		[]any{tx.prefix, name, int64(ticket)}, &id, &inbox)
	if err != nil {
		return sqlstore.Result{}, err
	}
	if !found {
		return sqlstore.Result{Err: store.ErrNotHeld}, nil
	}
	tx.notify(inbox, id, store.Status{State: store.Gone, Ticket: ticket})
	_, err = tx.tidy(name)
	return sqlstore.Result{}, err
}

// Poll implements sqlstore.Engine. Mostly it only reads, which does not keep other clients from writing.
func (e *engine) Poll(ctx context.Context, waiting []store.Claim) ([]sqlstore.Result, error) {
	type seen struct {
		answers []sqlstore.Result
		untidy  bool
	}
	s, err := read(ctx, e, func(tx *transaction) (s seen, err error) {
		if s.untidy = !tx.installed; s.untidy {
			return s, nil
		}
		if err := tx.exec("BEGIN"); err != nil { // so that all reads are from one snapshot
			return s, err
		}
		e.blockers, e.expiry = nil, 0
		s.answers, s.untidy, err = tx.poll(waiting, tx.peek)
		slices.Sort(e.blockers) // one client may be ahead of many claims
		e.blockers = slices.Compact(e.blockers)
		return s, errors.Join(err, tx.exec("COMMIT"))
	})
	if err != nil || !s.untidy {
		return s.answers, err
	}
	return write(ctx, e, func(tx *transaction) ([]sqlstore.Result, error) {
		answers, _, err := tx.poll(waiting, func(name string) (tally, bool, error) {
			if _, err := tx.removeDeadFrom(name); err != nil {
				return tally{}, false, err
			}
			t, err := tx.tidy(name)
			return t, false, err
		})
		return answers, err
	})
}

// poll returns the results for claims that wait. It calls count for each queue once; untidy reports whether it returned
// true for any.
func (tx *transaction) poll(waiting []store.Claim, count func(name string) (tally, bool, error)) (
	answers []sqlstore.Result, untidy bool, err error) {
	answers = make([]sqlstore.Result, len(waiting))
	queues := map[string]tally{}
	for i := range waiting {
		c := &waiting[i]
		t, done := queues[c.Name]
		if !done {
			var wants bool
			if t, wants, err = count(c.Name); err != nil {
				return nil, false, err
			}
			queues[c.Name], untidy = t, untidy || wants
		}
		if answers[i].Err = newer(t); answers[i].Err != nil {
			continue
		}
		r, found, err := tx.find(c)
		if err != nil {
			return nil, false, err
		}
		if found {
			answers[i] = sqlstore.Result{State: stateOf(r.state), Ticket: r.ticket, Ahead: -1}
			if answers[i].State == store.Waiting {
				answers[i].RecheckIn = max(time.Duration(t.earliest-tx.now), 1)
			}
		}
	}
	return answers, untidy, nil
}

// peek returns the tally of a queue and whether it needs to be tidied.
func (tx *transaction) peek(name string) (t tally, untidy bool, err error) {
	if t, err = tx.count(name); err != nil || t.count == 0 || t.newer {
		return t, false, err
	}
	if e := tx.engine; e.expiry == 0 || t.earliest < e.expiry {
		e.expiry = t.earliest
	}
	prefix := grant.Resume(t.head, t.held, t.used)
	next := row{}
	found, err := tx.nextWaiting(name, &next)
	if untidy = t.earliest <= tx.now || found && prefix.Admit(next.demand()); err != nil || untidy {
		return t, untidy, err
	}
	dead, alive, err := tx.blockers(name)
	tx.engine.blockers = append(tx.engine.blockers, alive...)
	return t, len(dead) > 0, err
}

// Queue implements sqlstore.Engine.
func (e *engine) Queue(ctx context.Context, name string) (store.Queue, error) {
	type answer struct {
		places  []store.Entry
		refused error
	}
	a, err := write(ctx, e, func(tx *transaction) (a answer, err error) {
		if _, err := tx.removeDeadFrom(name); err != nil {
			return a, err
		}
		t, err := tx.tidy(name)
		if err != nil || t.newer {
			return answer{refused: newer(t)}, err
		}
		a.places, err = tx.entries(name, -1)
		return a, err
	})
	return store.Queue{Name: name, Entries: a.places}, cmp.Or(err, a.refused)
}

// Names implements sqlstore.Engine.
func (e *engine) Names(ctx context.Context, prefix string) ([]string, error) {
	return write(ctx, e, func(tx *transaction) ([]string, error) {
		return readAll(tx.file, `SELECT DISTINCT name FROM holdfast_claims
			WHERE prefix = ?1 AND substr(name, 1, length(?2)) = ?2 AND deadline > ?3`,
			func(rows *sql.Rows) (name string, err error) {
				err = rows.Scan(&name)
				return name, err
			}, tx.prefix, prefix, tx.now)
	})
}

// Sweep implements sqlstore.Engine.
func (e *engine) Sweep(ctx context.Context) error {
	dead := e.notifier.sweep()
	return e.submit(ctx, &job{do: func(tx *transaction) error {
		if err := tx.removeDead(dead); err != nil {
			return err
		}
		return tx.sweep()
	}})
}

// mostSwept bounds how many queues one sweep tidies, so that other calls get their turn.
const mostSwept = 1000

// sweep removes expired claims from queues of all prefixes.
func (tx *transaction) sweep() error {
	_, err := tx.eachQueue("deadline <= ?", tx.now, func(name string) error {
		_, err := tx.tidy(name)
		return err
	})
	if err != nil {
		return err
	}
	return tx.exec("DELETE FROM holdfast_tombstones WHERE deadline <= ?", tx.now)
}

// eachQueue calls do for the queues, of all prefixes, that have a claim for which where is true, up to mostSwept. It
// reports whether these were all.
func (tx *transaction) eachQueue(where string, arg any, do func(name string) error) (all bool, err error) {
	type resource struct{ prefix, name string }
	queues, err := readAll(tx.file,
		"SELECT DISTINCT prefix, name FROM holdfast_claims WHERE "+where+" AND format <= ? LIMIT ?",
		func(rows *sql.Rows) (r resource, err error) {
			err = rows.Scan(&r.prefix, &r.name)
			return r, err
		}, arg, format, mostSwept)
	own := tx.prefix
	defer func() { tx.prefix = own }()
	for i := 0; err == nil && i < len(queues); i++ {
		tx.prefix = queues[i].prefix
		err = do(queues[i].name)
	}
	return len(queues) < mostSwept, err
}

func newer(t tally) error {
	if t.newer {
		return store.ErrFormat
	}
	return nil
}

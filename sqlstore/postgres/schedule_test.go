package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sqlstore/postgres"
	"github.com/holdfast-go/holdfast/store/storetest"
	"github.com/jackc/pgx/v5/pgconn"
)

// levels are the isolation levels that a database may have as its default.
var levels = []string{"read committed", "repeatable read", "serializable"}

// database creates a database with the tables of Holdfast and these settings, such as "work_mem = '1MB'". It returns
// its URL, and a client of it.
func database(t testing.TB, server *servers.PostgresServer, name string, settings ...string) (url string, db *sql.DB) {
	t.Helper()
	operator := server.DB(t)
	statement(t, operator, "CREATE DATABASE "+name)
	for _, setting := range settings {
		statement(t, operator, "ALTER DATABASE "+name+" SET "+setting)
	}
	url = server.URL("postgres", "", name)
	db, err := sql.Open("pgx", url)
	testkit.Must(t, err)
	t.Cleanup(func() { db.Close() })
	return url, db
}

// install creates the tables of Holdfast.
func install(t testing.TB, db *sql.DB) {
	t.Helper()
	s, err := postgres.New(t.Context(), db)
	testkit.Must(t, err)
	testkit.Must(t, s.Close())
}

// statement runs a statement that must work.
func statement(t testing.TB, db *sql.DB, text string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), text, args...); err != nil {
		t.Fatalf("%.60s: %v", text, err)
	}
}

// scalar runs a query that must work, and returns the one value that it yields as text.
func scalar(t testing.TB, db *sql.DB, query string, args ...any) string {
	t.Helper()
	var value sql.NullString
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&value); err != nil {
		t.Fatalf("%.60s: %v", query, err)
	}
	return value.String
}

// A schedule is a database in which calls meet: the first two wait for a slot that a transaction holds, and then run in
// the order in which they came, as far as the database lets them.
type schedule struct {
	db    *sql.DB
	conns [2]*sql.Conn
	pids  [2]int
	count int // of the names that were used
}

func newSchedule(t *testing.T, db *sql.DB) *schedule {
	t.Helper()
	s := &schedule{db: db}
	for i := range s.conns {
		conn, err := db.Conn(t.Context())
		testkit.Must(t, err)
		t.Cleanup(func() { conn.Close() })
		testkit.Must(t, conn.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&s.pids[i]))
		s.conns[i] = conn
	}
	return s
}

// An operation is a call of one of the functions, whose answer is text. The line of every test is in slot 0.
type operation struct {
	name  string
	reads bool // waits for no slot
	call  string
}

// all is what a resource has to give.
const all = 1000

func joining(id string, units int, try bool) string {
	return fmt.Sprintf(
		`SELECT * FROM holdfast.join(2, 0, '', $1, '%s', 'lock', %d, %d, 60000000, 0, %v, 0, 0, '', '', '{}')`,
		id,
		units,
		all,
		try,
	)
}

func keeping(id string, units int) string {
	return fmt.Sprintf(
		`SELECT * FROM holdfast.keep(2, '', '', json_build_array(json_build_object('i', 0, 'slot', 0, 'name',
		$1::text, 'id', '%s', 'ticket', 0, 'units', %d, 'ttl', 60000000, 'grace', 0, 'turn', 0, 'waits', '', 'owner', 0)),
		'["{}"]')`,
		id,
		units,
	)
}

func leaving(id string, ticket int) string {
	return fmt.Sprintf(`SELECT * FROM holdfast.leave(2, 0, '', $1, '%s', %d, 60000000)`, id, ticket)
}

func transferring(from, to, whose string) string {
	return fmt.Sprintf(`SELECT * FROM holdfast.transfer(2, 0, '', $1, '%s', '%s', 60000000, 0, '', '', %s)`, from, to,
		whose)
}

// In the lines of these schedules a holder h has ticket 1, and a waiter w ticket 2. The others are x and y.
var operations = []operation{
	{name: "x joins", call: joining("x", all, false)},
	{name: "y joins", call: joining("y", all, false)},
	{name: "y tries", call: joining("y", all, true)},
	{name: "x joins to read", call: joining("x", 1, false)},
	{name: "h keeps", call: keeping("h", all)},
	{name: "h reads on", call: keeping("h", 1)},
	{name: "w keeps", call: keeping("w", all)},
	{name: "h leaves", call: leaving("h", 1)},
	{name: "w leaves", call: leaving("w", 2)},
	{name: "x leaves unjoined", call: leaving("x", 0)},
	{name: "h is broken", call: `SELECT * FROM holdfast.break(2, 0, '', $1, 1)`},
	{name: "h is detached", call: transferring("h", "d", "NULL, NULL")},
	{name: "x attaches h", call: transferring("h", "x", "1, '{}'")},
	{name: "y attaches h", call: transferring("h", "y", "1, '{}'")},
	{name: "the line is tended", call: `SELECT * FROM holdfast.tend(2, 0, '', $1)`},
	{name: "w looks", reads: true, call: `SELECT * FROM holdfast.look(2, '',
		json_build_array(json_build_object('i', 0, 'name', $1::text, 'id', 'w', 'ticket', 2)), true)`},
}

// needs reports whether an operation is one of this claim's.
func (o operation) needs(claim byte) bool { return o.name[0] == claim }

func find(t *testing.T, name string) operation {
	t.Helper()
	i := slices.IndexFunc(operations, func(o operation) bool { return o.name == name })
	if i < 0 {
		t.Fatalf("no operation is called %q", name)
	}
	return operations[i]
}

// Lines from which schedules begin.
var beginnings = map[string]string{
	"empty": "",
	"h holds": `INSERT INTO holdfast.claims SELECT '', $1, 0, 0, 1, 'h', 'held', 'lock', 1000, 1000, now + 60000000,
		60000000, 0,
		now, 0, '', '', '{}', 1 FROM holdfast.clock() now`,
	"h holds, w waits": `INSERT INTO holdfast.claims SELECT '', $1, CASE id WHEN 'h' THEN 0 ELSE 2 END, 0, ticket, id,
		state,
		'lock', 1000, 1000, now + 60000000, 60000000, 0, now, 0, '', '', '{}', 1
		FROM holdfast.clock() now, (VALUES (1, 'h', 'held'), (2, 'w', 'waiting')) v (ticket, id, state)`,
	"h has expired, w waits": `INSERT INTO holdfast.claims SELECT '', $1, CASE id WHEN 'h' THEN 0 ELSE 2 END, 0,
		ticket, id,
		state, 'lock', 1000, 1000, now + left_over, 60000000, 0, now, 0, '', '', '{}', 1
		FROM holdfast.clock() now, (VALUES (1, 'h', 'held', -1), (2, 'w', 'waiting', 60000000)) v (ticket, id, state,
			left_over)`,
}

// begin makes a line, and returns its name.
func (s *schedule) begin(t *testing.T, beginning string) (name string) {
	t.Helper()
	s.count++
	name = fmt.Sprintf("line %d", s.count)
	if beginning != "" {
		statement(t, s.db, beginning, name)
	}
	return name
}

// call runs an operation over one of the connections, and again for as long as the database rolls it back.
func (s *schedule) call(ctx context.Context, o operation, name string, over int) string {
	for {
		var i, ticket, ahead, opens sql.NullInt64 // what an operation has no word on is NULL
		var state, problem, place sql.NullString
		row := s.conns[over].QueryRowContext(ctx, o.call, name)
		err := row.Scan(&i, &state, &ticket, &ahead, &opens, &problem, &place)
		if e, ok := errors.AsType[*pgconn.PgError](err); ok && (e.Code == "40001" || e.Code == "40P01") {
			continue
		}
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%s: %q, problem %q, %d ahead, in its way %v", o.name, state.String, problem.String,
			ahead.Int64, place.String != "")
	}
}

// line describes a line.
func (s *schedule) line(t *testing.T, name string) string {
	t.Helper()
	return "line: " + scalar(t, s.db, `SELECT string_agg(id || ' ' || state || ' ' || units, ', ' ORDER BY seat, ticket)
		FROM holdfast.claims WHERE name = $1`, name)
}

// inOrder runs one operation after the other. Its outcome does not say which was first.
func (s *schedule) inOrder(t *testing.T, beginning string, first, second operation) string {
	t.Helper()
	name := s.begin(t, beginning)
	answers := []string{s.call(t.Context(), first, name, 0), s.call(t.Context(), second, name, 1)}
	slices.Sort(answers)
	return strings.Join(append(answers, s.line(t, name)), "\n")
}

// atOnce has both operations wait for the slot, and then lets them run.
func (s *schedule) atOnce(t *testing.T, beginning string, first, second operation) string {
	t.Helper()
	name := s.begin(t, beginning)
	gate, err := s.db.BeginTx(t.Context(), nil)
	testkit.Must(t, err)
	defer gate.Rollback()
	_, err = gate.ExecContext(t.Context(), "SELECT 1 FROM holdfast.slots WHERE slot = 0 FOR UPDATE")
	testkit.Must(t, err)
	answers := make(chan string, 2)
	for i, o := range []operation{first, second} {
		go func() { answers <- s.call(t.Context(), o, name, i) }()
		if !o.reads {
			testkit.Await(t, o.name+" waits for the slot", func() bool {
				return scalar(t, s.db, "SELECT wait_event_type FROM pg_stat_activity WHERE pid = $1",
					s.pids[i]) == "Lock"
			})
		}
	}
	testkit.Must(t, gate.Commit())
	both := []string{<-answers, <-answers}
	slices.Sort(both)
	return strings.Join(append(both, s.line(t, name)), "\n")
}

// check runs two operations at once, and reports an outcome that neither order of them has.
func (s *schedule) check(t *testing.T, beginning string, first, second operation) (problem string) {
	t.Helper()
	orders := []string{s.inOrder(t, beginning, first, second), s.inOrder(t, beginning, second, first)}
	if got := s.atOnce(t, beginning, first, second); !slices.Contains(orders, got) {
		return fmt.Sprintf("%s while %s:\n%s\n\none after the other:\n%s\n\nor:\n%s", first.name, second.name, got,
			orders[0], orders[1])
	}
	return ""
}

// TestSchedules: two calls meet at a slot that a third transaction holds. Whatever the isolation level, the outcome is
// that of one call after the other.
func TestSchedules(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	for i, level := range levels {
		_, db := database(t, server, fmt.Sprint("level", i), "default_transaction_isolation = '"+level+"'")
		install(t, db)
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			if got := scalar(t, db, "SHOW transaction_isolation"); got != level {
				t.Fatalf("the isolation level is %s", got)
			}
			s := newSchedule(t, db)
			for beginning, statement := range beginnings {
				for i, first := range operations {
					for _, second := range operations[i:] {
						if statement == "" && (first.needs('h') || second.needs('h')) ||
							!strings.Contains(statement, "'w'") && (first.needs('w') || second.needs('w')) {
							continue
						}
						if problem := s.check(t, statement, first, second); problem != "" {
							t.Errorf("%s: %s", beginning, problem)
						}
					}
				}
			}
		})
	}
}

// inOneStatement replaces join by one statement that locks the slot, reads the line and inserts. It looks as if it did
// so in that order. But its snapshot is taken before it waits for the slot, and does not have what was committed
// meanwhile.
const inOneStatement = `
CREATE OR REPLACE FUNCTION holdfast.join(p_format integer, p_slot integer, p_prefix text, p_name text, p_id text,
	p_kind text,
	p_units integer, p_capacity integer, p_ttl bigint, p_grace bigint, p_try boolean, p_floor bigint, p_turn integer,
	p_inbox text, p_waits text, p_details text, p_any boolean DEFAULT false,
	OUT i integer, OUT state text, OUT ticket bigint, OUT ahead integer, OUT opens bigint, OUT problem text,
		OUT place text)
	LANGUAGE sql VOLATILE AS $$
	WITH drawn AS (
		UPDATE holdfast.slots SET mark = greatest(mark + 1, holdfast.clock()) WHERE slot = p_slot RETURNING mark
	), line AS (
		SELECT count(*) AS total FROM drawn, holdfast.claims c WHERE c.prefix = p_prefix AND c.name = p_name
	), placed AS (
		INSERT INTO holdfast.claims SELECT p_prefix, p_name, CASE total WHEN 0 THEN 0 ELSE mark END, p_slot, mark, p_id,
			CASE total WHEN 0 THEN 'held' ELSE 'waiting' END, p_kind, p_units, p_capacity, holdfast.clock() + p_ttl,
				p_ttl, p_grace,
			holdfast.clock(), p_turn, p_inbox, p_waits, p_details, p_format FROM drawn, line RETURNING state, ticket,
				seat
	) SELECT 0, placed.state, placed.ticket, line.total::int, 0::bigint, '', '' FROM placed, line
$$`

// TestJoinInOneStatement: a join whose snapshot is older than its lock is caught by the schedules. The table refuses
// its second holder, and without that there are two; and a waiter waits for nobody. Only READ COMMITTED has the trap:
// the other levels roll back what has seen an older line.
func TestJoinInOneStatement(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	for i, level := range levels {
		_, db := database(t, server, fmt.Sprint("level", i), "default_transaction_isolation = '"+level+"'")
		install(t, db)
		statement(t, db, inOneStatement)
		s := newSchedule(t, db)
		for _, belt := range []bool{true, false} {
			if !belt {
				statement(t, db, "ALTER TABLE holdfast.claims DROP CONSTRAINT claims_pkey")
			}
			twoJoin := s.check(t, "", find(t, "x joins"), find(t, "y joins"))
			leftAlone := s.check(t, beginnings["h holds"], find(t, "h leaves"), find(t, "x joins"))
			if level != levels[0] {
				if twoJoin != "" || leftAlone != "" {
					t.Errorf("%s: %s%s", level, twoJoin, leftAlone)
				}
				continue
			}
			want := "x held 1000, y held 1000"
			if belt {
				want = "SQLSTATE 23505" // a unique key is there twice
			}
			if !strings.Contains(twoJoin, want) {
				t.Errorf("belt %v: want %s: %s", belt, want, twoJoin)
			}
			if !strings.Contains(leftAlone, "line: x waiting 1000\n") {
				t.Errorf("belt %v: want x to wait for nobody: %s", belt, leftAlone)
			}
		}
	}
}

// drawAndInsert is the beginning of join if the ticket is drawn and the claim inserted by one statement.
const drawAndInsert = `
	WITH drawn AS (
		UPDATE holdfast.slots s SET mark = greatest(s.mark + 1, p_floor + 1, holdfast.clock())
			WHERE s.slot = p_slot RETURNING s.mark AS mark, s.format AS format, holdfast.clock() AS now
	), placed AS (
		INSERT INTO holdfast.claims (prefix, name, seat, slot, ticket, id, state, kind, units, capacity, deadline,
			ttl, grace,
			since, turn, inbox, waits, details, format)
		SELECT p_prefix, p_name, CASE WHEN p_kind = 'lock' AND p_units = p_capacity THEN 0 ELSE mark END, p_slot, mark,
			p_id, 'held', p_kind, p_units, p_capacity, now + p_ttl + p_grace, p_ttl, p_grace, now, p_turn, p_inbox,
			p_waits, p_details, p_format
		FROM drawn WHERE NOT EXISTS (SELECT 1 FROM holdfast.claims c WHERE c.prefix = p_prefix AND c.name = p_name)
		RETURNING 1
	) SELECT mark, format, now, EXISTS (SELECT 1 FROM placed) FROM drawn INTO STRICT v_mark, v_format, v_now, v_fits;
	IF v_fits THEN`

// TestSuiteCatchesOldSnapshot: the suite notices a store that differs from this one in the trap alone: the statement
// that looks at the line began before it got the slot. The table's belt, which would refuse the second holder, is taken
// off.
func TestSuiteCatchesOldSnapshot(t *testing.T) {
	t.Parallel()
	failure := storetest.MustCatch(t, func(t testing.TB) storetest.Harness {
		server := servers.Postgres(t)
		db := server.DB(t)
		install(t, db)
		join := scalar(t, db, "SELECT pg_get_functiondef('holdfast.join'::regproc)")
		begin, end := strings.Index(join, "UPDATE holdfast.slots"), strings.Index(join, "IF FOUND THEN")
		if begin < 0 || end < begin {
			t.Fatalf("join does not draw a ticket and then insert any more:\n%s", join)
		}
		statement(t, db, join[:begin]+drawAndInsert+join[end+len("IF FOUND THEN"):])
		statement(t, db, "ALTER TABLE holdfast.claims DROP CONSTRAINT claims_pkey")
		return &harness{server: server, address: server.Addr(), db: db, through: postgres.Through}
	}, "exclusion")
	if !strings.Contains(failure, "are held at once") {
		t.Errorf("it was noticed by something else: %s", failure)
	}
}

// TestLookWhileGranted: a claim that is granted moves to another seat. To look for it without a lock must not miss it
// in both.
func TestLookWhileGranted(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	db := server.DB(t)
	install(t, db)
	s := newSchedule(t, db)
	name := s.begin(t, beginnings["h holds, w waits"])
	statement(t, db, "DELETE FROM holdfast.claims WHERE id = 'h'")
	look := find(t, "w looks")
	ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
	moved := make(chan error)
	go func() {
		var err error
		for err == nil && ctx.Err() == nil {
			_, err = s.conns[1].ExecContext(t.Context(), `UPDATE holdfast.claims SET seat = 2 - seat,
				state = CASE seat WHEN 0 THEN 'waiting' ELSE 'held' END WHERE name = $1`, name)
		}
		moved <- err
	}()
	for ctx.Err() == nil {
		if answer := s.call(t.Context(), look, name, 0); strings.Contains(answer, `""`+", problem") {
			t.Errorf("a claim that stands was not found: %s", answer)
			stop()
		}
	}
	stop()
	testkit.Must(t, <-moved)
}

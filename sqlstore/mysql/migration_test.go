package mysql_test

import (
	"database/sql"
	_ "embed" // for the earlier schema
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sqlstore/mysql"
	"github.com/holdfast-go/holdfast/store"
)

// Schemas of earlier formats. In format 1 there is no transfer, and a claim never joins with any limit. In format 2
// keep takes claims that are not grouped.
var (
	//go:embed testdata/format1.sql
	format1 string
	//go:embed testdata/format2.sql
	format2 string
)

// installEarlier creates the tables of an earlier format, and joins a claim as a program of that time does.
func (h *harness) installEarlier(t testing.TB, format int) (held store.Claim) {
	t.Helper()
	conn, err := h.db.Conn(t.Context())
	testkit.Must(t, err)
	defer conn.Close()
	_, err = conn.ExecContext(t.Context(), "USE "+database)
	testkit.Must(t, err)
	testkit.Must(t, mysql.Install(t.Context(), conn, []string{format1, format2}[format-1]))
	held = claim("held")
	state, problem := h.callEarlier(t, "CALL holdfast_join(?, 0, '', ?, ?, 'lock', 1048576, 1048576, 60000000, 0, FALSE, "+
		"0, 0, '', '', '{}')", format, held.Name, held.ID.String())
	if state != "held" || problem != "" {
		t.Fatalf("a program of format %d joins: %q, problem %q", format, state, problem)
	}
	return held
}

// callEarlier makes a call as a program of an earlier format does.
func (h *harness) callEarlier(t testing.TB, call string, args ...any) (state, problem string) {
	t.Helper()
	var i, ticket, ahead, opens int64
	var place string
	err := h.pool(t, "").QueryRowContext(t.Context(), call, args...).
		Scan(&i, &state, &ticket, &ahead, &opens, &problem, &place)
	testkit.Must(t, err)
	return state, problem
}

// bodies returns the procedures as the server has them.
func (h *harness) bodies(t testing.TB) string {
	t.Helper()
	var all sql.NullString
	testkit.Must(t, h.db.QueryRow(`SELECT GROUP_CONCAT(MD5(CONCAT(routine_name, routine_definition, (SELECT
		GROUP_CONCAT(p.parameter_name, ' ', p.dtd_identifier ORDER BY p.ordinal_position)
		FROM information_schema.parameters p WHERE p.specific_schema = r.routine_schema
			AND p.specific_name = r.specific_name))) ORDER BY routine_name)
		FROM information_schema.routines r WHERE routine_schema = ?`, database).Scan(&all))
	return all.String
}

// TestMigrateEarlier: clients open tables of an earlier format at the same time. What is held stays held, the
// procedures are as Open creates them, and calls of a program that knows the earlier format are refused and change
// nothing.
func TestMigrateEarlier(t *testing.T) {
	t.Parallel()
	fresh := newHarness(t)
	testkit.Must(t, fresh.openOnce())
	want := fresh.bodies(t)
	for format := 1; format <= 2; format++ {
		t.Run(fmt.Sprint("from format ", format), func(t *testing.T) { testMigrateEarlier(t, format, want) })
	}
}

func testMigrateEarlier(t *testing.T, format int, bodies string) {
	t.Parallel()
	h := newHarness(t)
	held := h.installEarlier(t, format)
	const clients = 4
	done := make(chan error, clients)
	for range clients {
		go func() { done <- h.openOnce() }()
	}
	for range clients {
		testkit.Check(t, <-done)
	}
	if got := h.bodies(t); got != bodies || got == "" {
		t.Errorf("the procedures are %s, and are created as %s", got, bodies)
	}
	id := held.ID.String()
	for _, c := range []struct {
		call string
		args []any
	}{
		{"CALL holdfast_join(?, 0, '', ?, 'x', 'lock', 1048576, 1048576, 60000000, 0, FALSE, 0, 0, '', '', '{}')",
			[]any{"free"}},
		{`CALL holdfast_keep(?, '', '', JSON_ARRAY(JSON_OBJECT('i', 0, 'slot', 0, 'name', ?, 'id', ?, 'ticket', 0,
			'units', 1, 'ttl', 1000, 'grace', 0, 'turn', 0, 'waits', '', 'owner', 0)), '["{}"]')`,
			[]any{held.Name, id}},
		{"CALL holdfast_leave(?, 0, '', ?, ?, 0, 60000000)", []any{held.Name, id}},
		{"CALL holdfast_tend(?, 0, '', ?)", []any{held.Name}},
	} {
		if _, problem := h.callEarlier(t, c.call, append([]any{format}, c.args...)...); problem != "format" {
			t.Errorf("%.20s of a program of format %d: problem %q", c.call, format, problem)
		}
	}
	s := h.open(t)
	held.Ticket = testkit.Keep(t, s, held, store.Held).Ticket
	testkit.Detach(t, s, held, store.ID{1})
	heir := claim(held.Name)
	heir.Ticket = held.Ticket
	testkit.Attach(t, h.open(t), heir, store.ID{1})
	testkit.CheckLength(t, s, "free", 0)
}

// TestMigrationByHand: a user that may only lock cannot migrate the tables, and its error says what to run. It can open
// them once an administrator has run it with the server's client, and granted again.
func TestMigrationByHand(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	held := h.installEarlier(t, 1)
	h.exec(t, "CREATE USER 'app'@'%'")
	run := func(script string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), servers.Need(t, "mariadb"), "--no-defaults",
			"--socket="+h.server.Socket(), "--user=root", database)
		command.Stdin = strings.NewReader(script)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	run(strings.ReplaceAll(mysql.Grants(), "GRANT EXECUTE ON PROCEDURE holdfast_transfer TO 'app'@'%';\n", ""))
	_, err := mysql.Open(t.Context(), h.server.URL("app", "", database))
	testkit.CheckFault(t, err, true, "migrate", "holdfast schema mysql")
	run(mysql.Schema())
	run(mysql.Grants())
	s := h.openAs(t, "app")
	testkit.Keep(t, s, held, store.Held)
	checkWorks(t, s)
}

// TestMismatchWithFirst: claims with several limits are in one queue. A claim that accepts one limit only is compared
// with the first of them.
func TestMismatchWithFirst(t *testing.T) {
	t.Parallel()
	s := newHarness(t).open(t)
	claim := func(limit int32, anyLimit bool) store.Claim {
		c := testkit.Claim("x", time.Minute)
		c.Demand, c.AnyLimit = store.Demand{Kind: store.Semaphore, Units: 1, Limit: limit}, anyLimit
		return c
	}
	testkit.Held(t, s, claim(3, true))
	testkit.Held(t, s, claim(5, true))
	testkit.Waiting(t, s, claim(2, true))
	for _, limit := range []int32{2, 5} {
		_, err := s.Join(t.Context(), claim(limit, false))
		if mismatch, ok := errors.AsType[*store.MismatchError](err); !ok || mismatch.InUse.Limit != 3 {
			t.Errorf("a claim with limit %d behind claims of 3, 5 and 2: %v", limit, err)
		}
	}
	testkit.Waiting(t, s, claim(3, false))
	hasty := claim(2, true)
	hasty.Try = true
	testkit.Join(t, s, &hasty, store.Gone)
}

package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A planned is a connection that is told how its statements were run, those inside of functions too.
type planned struct {
	*pgx.Conn
	plans []plan
}

// A plan is how one statement was run.
type plan struct {
	Query string `json:"Query Text"`
	Plan  node
}

// A node is a step of a plan, as auto_explain writes it.
type node struct {
	Type     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Removed  float64 `json:"Rows Removed by Filter"`
	Plans    []node
}

// each visits a step and those below it.
func (n *node) each(visit func(*node)) {
	visit(n)
	for i := range n.Plans {
		n.Plans[i].each(visit)
	}
}

func newPlanned(t *testing.T, url string) *planned {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	testkit.Must(t, err)
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	p := &planned{}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		_, text, isPlan := strings.Cut(n.Message, "plan:\n")
		var read plan
		if isPlan && json.Unmarshal([]byte(text), &read) == nil {
			p.plans = append(p.plans, read)
		}
	}
	p.Conn, err = pgx.ConnectConfig(t.Context(), config)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Check(t, p.Close(context.Background())) })
	_, err = p.PgConn().Exec(t.Context(), `LOAD 'auto_explain';
		SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on;
			SET auto_explain.log_analyze = on;
		SET auto_explain.log_timing = off; SET auto_explain.log_format = json;
			SET auto_explain.log_level = notice`).ReadAll()
	testkit.Must(t, err)
	return p
}

// call runs a statement, and returns how it and what it called were run.
func (p *planned) call(t *testing.T, statement string, args ...any) []plan {
	t.Helper()
	p.plans = nil
	rows, err := p.Query(t.Context(), statement, args...)
	testkit.Must(t, err)
	rows.Close()
	testkit.Must(t, rows.Err())
	return p.plans
}

// read returns how many rows of a table a plan has read, and how it was read if not by its index.
func (p *plan) read(table string) (rows float64, scanned bool) {
	p.Plan.each(func(n *node) {
		if n.Relation == table && n.Type != "ModifyTable" {
			rows += (n.Rows + n.Removed) * n.Loops
			scanned = scanned || n.Type == "Seq Scan"
		}
	})
	return rows, scanned
}

// TestPlans: with 100,000 claims, 10,000 of them in one line, what clients call again and again reads no table from its
// beginning to its end, also over a connection whose plans were made when there was one claim. What is called while a
// claim stands, and to leave, reads the front of its line only; to join means to count the line.
func TestPlans(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.Args("-c", "autovacuum=off"))
	url, db := server.URL("postgres", "", "postgres"), server.DB(t)
	install(t, db)
	statement(t, db, beginnings["h holds"], "small")
	statement(t, db, "ANALYZE")
	const line = 10_000
	ticket := func(call string, ticket int) string {
		return strings.Replace(call, "'ticket', 0", fmt.Sprintf("'ticket', %d", ticket), 1)
	}
	calls := []struct {
		name, call, line string
		most             float64 // how many claims it reads. The server reads ten or so ahead.
	}{
		{"join a free name", joining("x", all, false), "free", 0},
		{"keep it", ticket(keeping("x", all), 1), "free", 10},
		{"leave it", leaving("x", 1), "free", 10},
		{"leave a free name unjoined", leaving("z", 0), "free", 0},
		{"try the line", joining("x", all, true), "line", line + 50},
		{"join the line", joining("x", all, false), "line", line + 50},
		{"keep a waiter", ticket(keeping("c9000", all), 9000), "line", 50},
		{"leave as a waiter", leaving("c8000", 8000), "line", 50},
		{"look", strings.Replace(find(t, "w looks").call, "2)", "7000)", 1), "line", 50},
		{"keep the holder", ticket(keeping("c1", all), 1), "line", 50},
		{"detach", transferring("c1", "d", "NULL, NULL"), "line", 50},
		{"attach", transferring("d", "c1", "1, '{}'"), "line", 50},
		{"hand over", leaving("c1", 1), "line", 50},
	}
	old := newPlanned(t, url)
	for range 10 { // plans are kept from the sixth time on
		for _, c := range calls {
			old.call(t, c.call, c.line)
		}
	}
	const fill = `INSERT INTO holdfast.claims SELECT '', CASE WHEN n <= $1 THEN 'line' ELSE 'name ' || n END,
		CASE WHEN n = 1 OR n > $1 THEN 0 ELSE n END, n % 256, n, 'c' || n,
			CASE WHEN n = 1 OR n > $1 THEN 'held' ELSE 'waiting' END,
		'lock', 1000, 1000, now + 600000000, 600000000, 0, now, 0, '', '', '{}', 1
		FROM holdfast.clock() now, generate_series(1, 100000) n`
	refill := func() {
		statement(t, db, "DELETE FROM holdfast.claims")
		statement(t, db, fill, line)
	}
	check := func(when string, conn *planned) {
		for _, c := range calls {
			var claims float64
			for _, p := range conn.call(t, c.call, c.line) {
				for _, table := range []string{"claims", "tombstones", "slots"} {
					rows, scanned := p.read(table)
					if scanned {
						t.Errorf("%s, %s: scans %s: %.200s", when, c.name, table, p.Query)
					}
					if table == "claims" {
						claims += rows
					}
				}
			}
			if claims > c.most {
				t.Errorf("%s, %s: reads %v claims, want %v at most", when, c.name, claims, c.most)
			}
		}
	}
	refill()
	statement(t, db, `INSERT INTO holdfast.tombstones SELECT 'id' || n, '', 'name', holdfast.clock() + 600000000
		FROM generate_series(1, 10000) n`)
	check("with plans of before", old)
	refill()
	statement(t, db, "ANALYZE")
	check("with new plans", newPlanned(t, url))
}

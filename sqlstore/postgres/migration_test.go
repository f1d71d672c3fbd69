package postgres_test

import (
	_ "embed" // for the earlier schema
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sqlstore/postgres"
	"github.com/holdfast-go/holdfast/store"
)

// format1 is the schema of format 1, in which there is no transfer, and join has one parameter less.
//
//go:embed testdata/format1.sql
var format1 string

// calls1 are the calls of programs that know format 1.
var calls1 = map[string]string{
	"join":  strings.Replace(joining("x", all, false), "join(2,", "join(1,", 1),
	"keep":  strings.Replace(keeping("h", all), "keep(2,", "keep(1,", 1),
	"leave": strings.Replace(leaving("h", 1), "leave(2,", "leave(1,", 1),
	"break": `SELECT * FROM holdfast.break(1, 0, '', $1, 1)`,
	"tend":  `SELECT * FROM holdfast.tend(1, 0, '', $1)`,
}

const allClaims = "SELECT string_agg(c::text, ' ' ORDER BY prefix, name, seat) FROM holdfast.claims c"

// TestMigrateFormat1: clients open tables of format 1 in which claims are held and wait. All claims stay, the tables
// are as Open creates them, and calls of a program that knows format 1 are refused and change nothing.
func TestMigrateFormat1(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	url, db := database(t, server, "migrated")
	statement(t, db, format1)
	earlier := newSchedule(t, db)
	for name := range calls1 {
		statement(t, db, beginnings["h holds, w waits"], name)
	}
	held := testkit.Claim("held", time.Minute)
	join := strings.Replace(calls1["join"], "'x'", "'"+held.ID.String()+"'", 1)
	if got := earlier.call(t.Context(), operation{call: join}, held.Name, 0); !strings.Contains(got, `"held"`) {
		t.Fatalf("a program of format 1 joins: %s", got)
	}
	claims := scalar(t, db, allClaims)
	all := openAtOnce(t, url)
	if len(all) < 8 {
		return
	}
	if got := scalar(t, db, allClaims); got != claims {
		t.Errorf("the claims were\n%s\nand are\n%s", claims, got)
	}
	_, created := database(t, server, "created")
	install(t, created)
	query := `SELECT regexp_replace(text, 'slots (\d+) \d+', 'slots \1', 'g') FROM (` + described + `) AS d (text)`
	if got, want := scalar(t, db, query), scalar(t, created, query); got != want {
		t.Errorf("migrated:\n%s\n\ncreated:\n%s", got, want)
	}
	before := allRows(t, db)
	for name, call := range calls1 {
		got := earlier.call(t.Context(), operation{call: call}, name, 0)
		if !strings.Contains(got, `problem "format"`) {
			t.Errorf("%s of a program of format 1: %s", name, got)
		}
	}
	statement(t, db, "SELECT holdfast.expired(1)")
	if after := allRows(t, db); after != before {
		t.Errorf("a program of format 1 has changed\n%s\nto\n%s", before, after)
	}
	testkit.Keep(t, all[0], held, store.Held)
	if status, err := all[0].Detach(t.Context(), held, store.ID{1}, time.Minute); status.State != store.Held {
		t.Errorf("Detach of a claim of format 1: %v, %v", status.State, err)
	}
	heir := testkit.Claim(held.Name, time.Minute)
	if status, err := all[1].Attach(t.Context(), heir, store.ID{1}); status.State != store.Held {
		t.Errorf("Attach of a claim of format 1: %v, %v", status.State, err)
	}
}

// TestMigrationNeedsOwner: a user that may only lock cannot migrate the tables, and its error says what to run. Once
// the owner, who may create nothing else, has run it, the user can open them with the grants that it had.
func TestMigrationNeedsOwner(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	db := server.DB(t)
	execute(t, db, "CREATE USER app", "CREATE USER owner", "GRANT CREATE ON DATABASE postgres TO owner",
		"SET ROLE owner; "+format1+"; RESET ROLE", "REVOKE CREATE ON DATABASE postgres FROM owner", postgres.Grants())
	u := server.URL("app", "", "postgres")
	testkit.CheckFault(t, openError(t, u), true, "format 1", "format 2", "holdfast schema postgres", server.Addr())
	execute(t, db, "SET ROLE owner; "+postgres.Schema()+"; RESET ROLE")
	testkit.CheckWorks(t, openAt(t, u))
	execute(t, db, postgres.Schema()) // again, which changes nothing
	testkit.CheckWorks(t, openAt(t, u))
	execute(t, db, "UPDATE holdfast.slots SET format = 3")
	if _, err := db.Exec(postgres.Schema()); err == nil || !strings.Contains(err.Error(), "newer format") {
		t.Errorf("the schema was run on tables of a newer format: %v", err)
	}
}

// TestMismatchWithFirst: claims with several limits are in one queue. A claim that accepts one limit only is compared
// with the first of them.
func TestMismatchWithFirst(t *testing.T) {
	t.Parallel()
	s := openAt(t, urlAt(servers.Postgres(t).Addr()))
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
}

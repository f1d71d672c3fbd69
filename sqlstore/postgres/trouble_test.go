package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sqlstore/postgres"
	"github.com/holdfast-go/holdfast/store"
)

// Servers and tables that refuse, and what a store says of it.

// openError returns the error of a store that must not open.
func openError(t testing.TB, url string, options ...postgres.Option) error {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, options...)
	if err == nil {
		testkit.Check(t, s.Close())
		t.Fatalf("%s was opened", url)
	}
	return err
}

// execute runs statements as an operator.
func execute(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// URLs that cannot be right are refused before anything is connected, and no error repeats a password.
func TestBadURLs(t *testing.T) {
	t.Parallel()
	testkit.RefuseURLs(t, map[string]string{
		"postgres://me:secret@127.0.0.1/db?sslmode=perhaps":                             "sslmode",
		"postgres://me:secret@127.0.0.1/db?color=red":                                   "unknown parameter",
		"postgres://127.0.0.1/db?password=secret":                                       "unknown parameter",
		"postgres://me:secret@127.0.0.1:70000/db":                                       "port",
		"postgres://me:secret@127.0.0.1/db?sslmode=verify-full&sslrootcert=/none/such":  "CA file",
		"postgres://127.0.0.1/db?listen=postgres://me:secret@127.0.0.1/db?sslmode%3Dno": "listen",
		"postgres://127.0.0.1/db?listen=mysql://me:secret@127.0.0.1/db":                 "listen",
	})
}

// A server that refuses a client says why, and it is of no use to try again.
func TestRefusedLogin(t *testing.T) {
	t.Parallel()
	certificates, foreign := servers.NewCertificates(t), servers.NewCertificates(t)
	plain := servers.Postgres(t, servers.Password("right"))
	safe := servers.Postgres(t, servers.TLS(certificates))
	for _, test := range []struct {
		name, url string
		words     string
		options   []postgres.Option
	}{
		{"wrong password", plain.URL("postgres", testkit.Secret, "postgres"), "refuses this user, password or database",
			nil},
		{"unknown user", plain.URL("nobody", testkit.Secret, "postgres"), "refuses this user, password or database",
			nil},
		{"unknown database", plain.URL("postgres", "right", "nowhere"), "there is no such database", nil},
		{
			"TLS demanded of a server without", "postgres://postgres:right@" + plain.Addr() +
				"/postgres?sslmode=require",
			"TLS", nil,
		},
		{"no TLS where the server demands it", urlAt(safe.Addr()), "refuses this user, password or database", nil},
		{
			"unknown authority",
			"postgres://postgres@" + safe.Addr() + "/postgres?sslmode=verify-full&sslrootcert=" +
				url.QueryEscape(foreign.CAFile),
			"certificate signed by unknown authority", nil,
		},
		{
			"wrong host", strings.Replace(safe.URL("postgres", "", "postgres"), "127.0.0.1", "127.0.0.2", 1),
			"certificate is valid for 127.0.0.1, not 127.0.0.2", []postgres.Option{postgres.Through(safe.Addr())},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			at := testkit.Locate(t, test.url)
			testkit.CheckFault(t, openError(t, test.url, test.options...), true, test.words, at.Hosts[0])
		})
	}
	t.Run("as it should be", func(t *testing.T) {
		t.Parallel()
		testkit.CheckWorks(t, openAt(t, plain.URL("postgres", "right", "postgres")))
		testkit.CheckWorks(t, openAt(t, safe.URL("postgres", "", "postgres")))
	})
}

// A server that is not there may come back.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	nobody, silent := testkit.Nobody(t), testkit.Silent(t)
	testkit.CheckFault(t, openError(t, "postgres://me:secret@"+nobody+"/db"), false, "cannot be reached", nobody)
	testkit.CheckFault(t, openError(t, "postgres://me:secret@"+silent+"/db?connect_timeout=1"), false,
		"cannot be reached", silent)
	both := "postgres://me:secret@" + nobody + "," + silent + "/db?connect_timeout=1&sslmode=disable"
	testkit.CheckFault(t, openError(t, both), false, "cannot be reached", nobody, silent)
}

// A server that is too old is refused. This one says that it is, to one user.
func TestOldServer(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	execute(
		t,
		server.DB(t),
		"CREATE SCHEMA old",
		"CREATE USER old SUPERUSER",
		"ALTER USER old SET search_path = old, pg_catalog",
		"CREATE FUNCTION old.current_setting(text) RETURNS text LANGUAGE sql AS $$ "+
			"SELECT CASE $1 WHEN 'server_version_num' THEN '120022' ELSE pg_catalog.current_setting($1) END $$",
	)
	testkit.CheckFault(t, openError(t, server.URL("old", "", "postgres")), true, "version 12", "13 is the oldest",
		server.Addr())
}

// grants returns the privileges of postgres.Grants one by one, as in "SELECT ON holdfast.claims".
func grants() (all []string) {
	for line := range strings.Lines(postgres.Grants()) {
		grant, isGrant := strings.CutPrefix(strings.TrimSuffix(line, " TO app;\n"), "GRANT ")
		if !isGrant {
			continue
		}
		privileges, things, _ := strings.Cut(grant, " ON ")
		for privilege := range strings.SplitSeq(privileges, ", ") {
			for thing := range strings.SplitSeq(things, ", ") {
				all = append(all, privilege+" ON "+thing)
			}
		}
	}
	return all
}

// A user that may create nothing gets an error with what to do. With what an administrator then creates and grants
// everything works. Without one of the grants the store says at once what is missing, and it is right: if it did not
// look, a call would fail.
func TestSmallestGrants(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	db := server.DB(t)
	execute(t, db, "CREATE USER app")
	u := server.URL("app", "", "postgres")
	testkit.CheckFault(t, openError(t, u), true, "may not create the schema", "holdfast schema postgres", server.Addr())

	execute(t, db, postgres.Schema(), postgres.Grants())
	testkit.CheckWorks(t, openAt(t, u))
	testkit.Must(t, useUnchecked(t, db, u))
	for _, grant := range grants() {
		execute(t, db, "REVOKE "+grant+" FROM app")
		privilege, on, _ := strings.Cut(grant, " ON ")
		if privilege == "USAGE" {
			privilege = "permission denied" // the server's own words
		}
		testkit.CheckFault(t, openError(t, u), true, "lacks", privilege, strings.TrimPrefix(on, "SCHEMA "),
			server.Addr())
		if err := useUnchecked(t, db, u); err == nil {
			t.Errorf("%s is not needed", grant)
		} else if !strings.Contains(err.Error(), "42501") {
			t.Errorf("without %s: %v", grant, err)
		}
		execute(t, db, "GRANT "+grant+" TO app")
	}
	execute(t, db, "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA holdfast FROM public")
	testkit.CheckFault(t, openError(t, u), true, "lacks", "EXECUTE", server.Addr())
	execute(t, db, "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA holdfast TO app")
	testkit.CheckWorks(t, openAt(t, u))
}

// useUnchecked makes every call, and a sweep, with a store that does not look at the user's privileges. It returns the
// first error.
func useUnchecked(t testing.TB, db *sql.DB, url string) error {
	t.Helper()
	execute(t, db, "DELETE FROM holdfast.claims")
	s, err := postgres.Open(t.Context(), url, postgres.Trusting())
	if err != nil {
		return err
	}
	defer s.Close()
	if err := testkit.Tour(t.Context(), s); err != nil {
		return err
	}
	execute(t, db, "UPDATE holdfast.meta SET swept = 0")
	app, err := sql.Open("pgx", url)
	testkit.Must(t, err)
	defer app.Close()
	_, err = app.Exec("SELECT holdfast.expired(2)") // a sweep, of which a store ignores errors
	return err
}

// column returns the texts that a query yields.
func column(t testing.TB, db *sql.DB, query string) (texts []string) {
	t.Helper()
	rows, err := db.Query(query)
	testkit.Must(t, err)
	defer rows.Close()
	for rows.Next() {
		var text string
		testkit.Must(t, rows.Scan(&text))
		texts = append(texts, text)
	}
	testkit.Must(t, rows.Err())
	return texts
}

// contents is all that the tables have, as text.
func contents(t testing.TB, db *sql.DB) []string {
	t.Helper()
	return column(t, db, `SELECT t::text FROM holdfast.meta t UNION ALL SELECT t::text FROM holdfast.slots t
		UNION ALL SELECT t::text FROM holdfast.claims t UNION ALL SELECT t::text FROM holdfast.tombstones t ORDER BY 1`)
}

// Tables of a newer format are refused: by a program that opens them, and by one that has them open when they are
// migrated. Neither touches anything, and the sweeps don't either.
func TestNewerFormat(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	db := server.DB(t)
	s := openAt(t, urlAt(server.Addr()))
	expired := testkit.Held(t, s, testkit.Claim("expired", time.Minute))
	held := testkit.Held(t, s, testkit.Claim("held", time.Minute))
	waiter := testkit.Waiting(t, s, testkit.Claim("held", time.Minute))
	testkit.Leave(t, s, testkit.Claim("held", time.Minute)) // leaves a tombstone
	execute(t, db, "UPDATE holdfast.slots SET format = 3", "UPDATE holdfast.tombstones SET deadline = 1",
		"UPDATE holdfast.claims SET deadline = 1 WHERE id = '"+expired.ID.String()+"'",
		"UPDATE holdfast.meta SET swept = 0")
	before := contents(t, db)
	check := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, store.ErrFormat) || !store.Final(err) {
			t.Errorf("%s: %v, want %v", what, err, store.ErrFormat)
		}
		if after := contents(t, db); !slices.Equal(before, after) {
			t.Fatalf("%s has changed the tables from %q to %q", what, before, after)
		}
	}
	check("Open", openError(t, urlAt(server.Addr())))
	for _, c := range []store.Claim{testkit.Claim("new", time.Minute), held, waiter, expired} {
		for name, call := range testkit.Calls(s, c) {
			if name == "Names" {
				continue // it only reads
			}
			if name == "Keep" {
				statuses, err := s.Keep(t.Context(), []store.Claim{c})
				testkit.Must(t, err)
				check(name, statuses[0].Err)
				continue
			}
			check(name, call(t.Context()))
		}
	}
	execute(t, db, "SELECT holdfast.expired(2)")
	check("a sweep", store.ErrFormat)
	execute(t, db, "UPDATE holdfast.slots SET format = 2")
	testkit.Keep(t, s, held, store.Held)
}

// Tables or functions that were altered are refused, by whichever call needs what is missing.
func TestAlteredTables(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	db := server.DB(t)
	u := urlAt(server.Addr())
	for _, test := range []struct {
		name, alter string
		calls       []string // those that must fail
	}{
		{"column renamed", "ALTER TABLE holdfast.claims RENAME COLUMN inbox TO outbox", []string{"Join", "Keep"}},
		{"column dropped", "ALTER TABLE holdfast.claims DROP COLUMN deadline CASCADE", []string{"Join", "Keep", "Line",
			"Names"}},
		{"type changed", "ALTER TABLE holdfast.slots ALTER COLUMN mark TYPE text", []string{"Join"}},
		{"function dropped", "DROP FUNCTION holdfast.keep", []string{"Keep"}},
		{"table dropped", "DROP TABLE holdfast.tombstones", []string{"Join"}},
		{"slots deleted", "DELETE FROM holdfast.slots", []string{"Open", "Join", "Keep", "Leave", "Break", "Line"}},
		{"slot deleted", "DELETE FROM holdfast.slots WHERE slot < 255", []string{"Open", "Join", "Keep", "Leave",
			"Break", "Line"}},
		{"meta emptied", "DELETE FROM holdfast.meta", []string{"Open"}},
		{"schema dropped", "DROP SCHEMA holdfast CASCADE", []string{"Join", "Keep", "Leave", "Break", "Line", "Names"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			execute(t, db, "DROP SCHEMA IF EXISTS holdfast CASCADE")
			s := openAt(t, u)
			held := testkit.Held(t, s, testkit.Claim("held", time.Minute))
			calls := testkit.Calls(s, held)
			calls["Join"] = testkit.Calls(s, testkit.Claim("other", time.Minute))["Join"]
			calls["Open"] = func(ctx context.Context) error {
				s, err := postgres.Open(ctx, u)
				if err == nil {
					err = s.Close()
				}
				return err
			}
			execute(t, db, test.alter)
			for _, name := range test.calls {
				err := calls[name](t.Context())
				if err == nil {
					t.Errorf("%s works", name)
					continue
				}
				testkit.CheckFault(t, err, true, "were altered", "holdfast schema postgres", server.Addr())
			}
		})
	}
}

// A clock that was set back is mended for a whole line at once: clients of it may have died, and each would cost a ttl.
func TestClockSetBackForAll(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	db := server.DB(t)
	s := openAt(t, urlAt(server.Addr()))
	testkit.Held(t, s, testkit.Claim("x", time.Minute))
	first := testkit.Waiting(t, s, testkit.Claim("x", time.Minute))
	testkit.Waiting(t, s, testkit.Claim("x", time.Minute))
	testkit.Waiting(t, s, testkit.Claim("x", time.Minute))
	execute(t, db, "UPDATE holdfast.claims SET deadline = deadline + 3600000000")
	testkit.Keep(t, s, first, store.Waiting)
	late := "SELECT count(*) FROM holdfast.claims WHERE deadline - ttl - grace > holdfast.clock()"
	if n := scalar(t, db, late); n != "0" {
		t.Errorf("%s claims expire too late", n)
	}
}

// A holder that was deleted by hand makes way for the first that waits as soon as that is kept.
func TestHolderDeletedByHand(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	s := openAt(t, urlAt(server.Addr()))
	held := testkit.Held(t, s, testkit.Claim("x", time.Minute))
	first := testkit.Waiting(t, s, testkit.Claim("x", time.Minute))
	second := testkit.Waiting(t, s, testkit.Claim("x", 2*time.Minute))
	start := time.Now()
	for _, c := range []store.Claim{first, second} { // what is ahead of both is a holder with a minute left
		status := testkit.Keep(t, s, c, store.Waiting)
		if in := status.RecheckAt.Sub(start); in < 50*time.Second || in > 62*time.Second {
			t.Errorf("it is to ask again in %v", in)
		}
	}
	execute(t, server.DB(t), "DELETE FROM holdfast.claims WHERE id = '"+held.ID.String()+"'")
	testkit.Keep(t, s, first, store.Held)
}

// A database in another encoding could not hold all names.
func TestServerEncoding(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	execute(t, server.DB(t), "CREATE DATABASE old ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
	testkit.CheckFault(t, openError(t, server.URL("postgres", "", "old")), true, "LATIN1", "UTF8")
}

package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// A granter is a database in which an administrator has run what `holdfast schema` prints.
type granter struct {
	*testing.T
	execute func(statement string) error // as the administrator
	user    string                       // quoted
	url     string                       // of the user
	reset   []string                     // leaves no claim, and an expired tombstone that the next client has to sweep
	swept   func() bool                  // reports whether that is gone
}

// checkGrants demands that a user with these grants can do all that a store does, and with any privilege less cannot.
func (g *granter) checkGrants(grants []string) {
	g.Helper()
	if len(grants) == 0 {
		g.Fatal("no grants are printed")
	}
	for _, grant := range grants {
		check(g, g.execute(grant))
	}
	check(g, g.use())
	for _, grant := range grants {
		privileges, objects, _ := strings.Cut(strings.TrimPrefix(grant, "GRANT "), " ON ")
		objects, _, _ = strings.Cut(objects, " TO ")
		for privilege := range strings.SplitSeq(privileges, ", ") {
			for object := range strings.SplitSeq(objects, ", ") {
				check(g, g.execute(fmt.Sprintf("REVOKE %s ON %s FROM %s", privilege, object, g.user)))
				if err := g.use(); err == nil {
					g.Errorf("%s on %s is not needed", privilege, object)
				}
				check(g, g.execute(fmt.Sprintf("GRANT %s ON %s TO %s", privilege, object, g.user)))
			}
		}
	}
}

// use does all that a store can be asked for.
func (g *granter) use() error {
	for _, statement := range g.reset {
		check(g, g.execute(statement))
	}
	ctx := g.Context()
	s, err := store.Open(ctx, testkit.Locate(g, g.url)) // which sweeps
	if err != nil {
		return err
	}
	defer s.Close()
	if !g.swept() {
		return errors.New("it cannot sweep")
	}
	granted := make(chan struct{}, 16)
	s.Notify(func(_ store.ID, standing store.Status) {
		if standing.State == store.Held {
			granted <- struct{}{}
		}
	})
	first, second := testkit.Claim("x", time.Minute), testkit.Claim("x", time.Minute)
	never := testkit.Claim("y", time.Minute)
	for _, c := range []*store.Claim{&first, &second} {
		standing, err := s.Join(ctx, *c)
		if err != nil {
			return err
		}
		c.Ticket = standing.Ticket
	}
	if _, err := s.Keep(ctx, []store.Claim{first, second}); err != nil {
		return err
	}
	if err := s.Leave(ctx, never); err != nil { // with a tombstone
		return err
	}
	if err := s.Leave(ctx, first); err != nil {
		return err
	}
	select {
	case <-granted:
	case <-time.After(5 * time.Second):
		return errors.New("it does not learn of its grant")
	}
	detached := store.ID{1}
	if _, err := s.(store.Detacher).Detach(ctx, second, detached, time.Minute); err != nil {
		return err
	}
	if _, err := s.Queue(ctx, "x"); err != nil {
		return err
	}
	for _, err := range s.Names(ctx, "") {
		if err != nil {
			return err
		}
	}
	return s.Break(ctx, "x", second.Ticket)
}

// grantsIn are the statements in the comments at the end of a schema.
func grantsIn(schema string) (grants []string) {
	for line := range strings.Lines(schema) {
		if grant, ok := strings.CutPrefix(line, "-- GRANT "); ok {
			grants = append(grants, "GRANT "+strings.TrimRight(grant, ";\n"))
		}
	}
	return grants
}

// TestSchemaOfPostgres: an administrator runs what is printed, and grants what it says to a user with a name that needs
// quotes. That user can lock, and with any privilege less it cannot.
func TestSchemaOfPostgres(t *testing.T) {
	const user = `O'Brien "of" shop`
	server := servers.Postgres(t)
	db := server.DB(t)
	g := &granter{
		T: t, user: quotePostgres(user), url: server.URL(user, "", "postgres"),
		execute: func(statement string) error {
			return second(db.ExecContext(t.Context(), statement, pgx.QueryExecModeSimpleProtocol))
		},
		reset: []string{
			"DELETE FROM holdfast.claims",
			"UPDATE holdfast.meta SET swept = 0",
			"INSERT INTO holdfast.tombstones VALUES ('old', '', 'z', 1) ON CONFLICT DO NOTHING",
		},
		swept: func() (gone bool) {
			const query = "SELECT NOT EXISTS (SELECT 1 FROM holdfast.tombstones WHERE id = 'old')"
			check(t, db.QueryRowContext(t.Context(), query).Scan(&gone))
			return gone
		},
	}
	r := bare(t, "schema", "postgres", "--user", user)
	r.want(t, 0, `(?s)CREATE SCHEMA holdfast;.*\n-- GRANT .*;\n$`, nothing)
	check(t, g.execute(r.out))
	check(t, g.execute("CREATE ROLE "+g.user+" LOGIN"))
	g.checkGrants(grantsIn(r.out))
}

// TestSchemaOfMySQL is TestSchemaOfPostgres on MariaDB.
func TestSchemaOfMySQL(t *testing.T) {
	const user = "O'Brien \\ `of` shop"
	server := servers.MariaDB(t)
	admin := server.DB(t)
	check(t, second(admin.ExecContext(t.Context(), "CREATE DATABASE locks")))
	db, err := admin.Conn(t.Context())
	check(t, err)
	defer db.Close()
	g := &granter{
		T: t, user: quoteMySQL(user), url: server.URL(user, "", "locks"),
		execute: func(statement string) error { return second(db.ExecContext(t.Context(), statement)) },
		reset: []string{
			"DELETE FROM holdfast_claims",
			"UPDATE holdfast_meta SET swept = 0",
			"INSERT IGNORE INTO holdfast_tombstones VALUES ('old', '', 'z', 1)",
		},
		swept: func() (gone bool) {
			const query = "SELECT NOT EXISTS (SELECT 1 FROM holdfast_tombstones WHERE id = 'old')"
			check(t, db.QueryRowContext(t.Context(), query).Scan(&gone))
			return gone
		},
	}
	check(t, g.execute("USE locks"))
	r := bare(t, "schema", "mysql", "--user", user)
	r.want(t, 0, `(?s)CREATE TABLE .*\n-- GRANT .*;\n$`, nothing)
	script, _, _ := strings.Cut(r.out, "\nDELIMITER ;\n") // as the database's own client reads it
	_, script, _ = strings.Cut(script, "\nDELIMITER //\n")
	for statement := range strings.SplitSeq(script, " //") {
		if strings.TrimSpace(statement) != "" {
			check(t, g.execute(statement))
		}
	}
	check(t, g.execute("CREATE USER "+g.user))
	g.checkGrants(grantsIn(r.out))
}

func TestQuoteMySQL(t *testing.T) {
	for user, want := range map[string]string{
		"shop": "`shop`@`%`", "shop@10.%": "`shop`@`10.%`", "a`b@c@localhost": "`a``b@c`@`localhost`",
	} {
		if got := quoteMySQL(user); got != want {
			t.Errorf("%s: %s, want %s", user, got, want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestWrongUseOfSchema(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"schema"}, "which database"},
		{[]string{"schema", "postgres", "app"}, "which database"},
		{[]string{"schema", "oracle"}, "oracle is not known; there are postgres and mysql"},
		{[]string{"schema", "postgres://joe:hush@h"}, "the argument is not known"},
		{[]string{"schema", "postgres", "--user="}, "--user"},
		{[]string{"schema", "postgres", "--user", "joe\n; DROP TABLE x"}, "--user"},
	} {
		bare(t, c.args...).complains(t, exitUsage, c.says)
	}
	bare(t, "schema", "postgres").want(t, 0, `-- GRANT USAGE ON SCHEMA holdfast TO "YOUR_USER";\n`, nothing)
}

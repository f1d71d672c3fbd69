package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/sqlstore/postgres"
	"github.com/holdfast-go/holdfast/store"
)

// openAtOnce has 8 clients open a database at the same time.
func openAtOnce(t *testing.T, url string, options ...postgres.Option) []*sqlstore.Store {
	t.Helper()
	type opened struct {
		s   *sqlstore.Store
		err error
	}
	results := make(chan opened)
	for range 8 {
		go func() {
			s, err := postgres.Open(t.Context(), url, options...)
			results <- opened{s, err}
		}()
	}
	var all []*sqlstore.Store
	for range 8 {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
			continue
		}
		t.Cleanup(func() { r.s.Close() })
		all = append(all, r.s)
	}
	return all
}

// allRows is all that the tables of Holdfast have.
func allRows(t *testing.T, db *sql.DB) string {
	t.Helper()
	return scalar(t, db, `SELECT concat((SELECT string_agg(s::text, ' ' ORDER BY slot) FROM holdfast.slots s),
		(SELECT string_agg(m::text, ' ') FROM holdfast.meta m),
		(SELECT string_agg(c::text, ' ' ORDER BY prefix, name, seat) FROM holdfast.claims c),
		(SELECT string_agg(b::text, ' ' ORDER BY id) FROM holdfast.tombstones b))`)
}

// TestInstallAtOnce: clients that open an empty database at the same time all end up with the same tables. The same
// goes for a migration, which is applied once. A program of before is refused from then on, and changes nothing.
func TestInstallAtOnce(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	for i, level := range levels {
		url, db := database(t, server, fmt.Sprint("level", i), "default_transaction_isolation = '"+level+"'")
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			olds := openAtOnce(t, url)
			if len(olds) < 8 {
				return
			}
			for _, s := range olds {
				if got, want := s.Abilities().Identity, olds[0].Abilities().Identity; got != want {
					t.Errorf("a client sees the tables %s, another %s", got, want)
				}
			}
			held := testkit.Held(t, olds[0], testkit.Claim("x", time.Minute))

			migration := postgres.Migrations(
				`CREATE TABLE holdfast.made (n integer); INSERT INTO holdfast.made VALUES (1);
				UPDATE holdfast.slots SET format = 3`,
			)
			news := openAtOnce(t, url, migration)
			if n := scalar(t, db, "SELECT count(*) FROM holdfast.made"); n != "1" {
				t.Errorf("the migration was applied %s times", n)
			}
			if len(news) > 0 {
				testkit.Keep(t, news[0], held, store.Held) // what was written before counts
			}
			statement(t, db, "UPDATE holdfast.meta SET swept = 0")
			before := allRows(t, db)
			if s, err := postgres.Open(t.Context(), url); !errors.Is(err, store.ErrFormat) {
				t.Errorf("an older program opens the tables: %v, %v", s, err)
			}
			calls := testkit.Calls(olds[0], held)
			delete(calls, "Names") // which may name what it cannot read
			calls["Keep"] = func(ctx context.Context) error {
				statuses, err := olds[0].Keep(ctx, []store.Claim{held})
				testkit.Must(t, err)
				return statuses[0].Err
			}
			for name, call := range calls {
				if err := call(t.Context()); !errors.Is(err, store.ErrFormat) {
					t.Errorf("%s of an older program: %v", name, err)
				}
			}
			statement(t, db, "SELECT holdfast.expired(2)") // as an older program sweeps
			if after := allRows(t, db); after != before {
				t.Errorf("an older program has changed\n%s\nto\n%s", before, after)
			}
		})
	}
}

// described selects all that Open creates, as text.
const described = `SELECT string_agg(line, E'\n' ORDER BY line) FROM (
	SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.pronamespace = 'holdfast'::regnamespace
	UNION ALL SELECT concat(c.relname, ' ', c.relkind, ' ', c.reloptions, ' ', a.attnum, ' ', a.attname, ' ',
			format_type(a.atttypid, a.atttypmod), ' ', a.attnotnull, ' ', a.attcollation::regcollation, ' ',
			pg_get_expr(d.adbin, d.adrelid))
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
		LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
	WHERE c.relnamespace = 'holdfast'::regnamespace
	UNION ALL SELECT concat(k.conname, ' ', pg_get_constraintdef(k.oid)) FROM pg_constraint k
		WHERE k.connamespace = 'holdfast'::regnamespace
	UNION ALL SELECT concat(v.viewname, ' ', v.definition) FROM pg_views v WHERE v.schemaname = 'holdfast'
	UNION ALL SELECT concat('slots ', slot, ' ', mark, ' ', format) FROM holdfast.slots) AS all_of_it (line)`

// TestSchemaByHand: what Schema returns is what Open creates, and Open finds nothing to do after it.
func TestSchemaByHand(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	url, byHand := database(t, server, "by_hand")
	statement(t, byHand, postgres.Schema())
	identity := scalar(t, byHand, "SELECT identity FROM holdfast.meta")
	_, opened := database(t, server, "opened")
	install(t, opened)
	if got, want := scalar(t, byHand, described), scalar(t, opened, described); got != want || len(got) < 1000 {
		t.Errorf("by hand:\n%s\n\nby Open:\n%s", got, want)
	}
	s := testkit.Open(t, url)
	testkit.CheckWorks(t, s)
	if got := scalar(t, byHand, "SELECT identity FROM holdfast.meta"); got != identity {
		t.Errorf("the tables were %s, and are %s", identity, got)
	}
}

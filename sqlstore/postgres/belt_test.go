package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestTableRefusesSecondHolder: a write to the table by hand cannot make a second exclusive holder.
func TestTableRefusesSecondHolder(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	db := server.DB(t)
	s := testkit.Open(t, server.URL("postgres", "", "postgres"))
	holder := testkit.Held(t, s, testkit.Claim("belt", time.Minute))
	waiter := testkit.Waiting(t, s, testkit.Claim("belt", time.Minute))
	const unique, violated = "23505", "23514"
	for name, test := range map[string]struct{ statement, id, code string }{
		"insert":           {insertHolder("0"), holder.ID.String(), unique},
		"insert, own seat": {insertHolder("ticket + 1"), holder.ID.String(), violated},
		"update": {"UPDATE holdfast.claims SET state = 'held', seat = 0 WHERE id = $1", waiter.ID.String(),
			unique},
		"update, own seat":  {"UPDATE holdfast.claims SET state = 'held' WHERE id = $1", waiter.ID.String(), violated},
		"holder moves away": {"UPDATE holdfast.claims SET seat = ticket WHERE id = $1", holder.ID.String(), violated},
	} {
		_, err := db.Exec(test.statement, test.id)
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != test.code {
			t.Errorf("%s: %v, want %s", name, err, test.code)
		}
	}
	testkit.Keep(t, s, holder, store.Held)
}

// insertHolder inserts another claim like one that is there, with a seat.
func insertHolder(seat string) string {
	return `INSERT INTO holdfast.claims SELECT prefix, name, ` + seat +
		`, slot, ticket + 1, 'other', state, kind, units,
		capacity, deadline, ttl, grace, since, turn, inbox, waits, details, format FROM holdfast.claims WHERE id = $1`
}

// TestTombstoneIsRenewed: a claim that is left twice before it was known to have joined must not join for a ttl after
// the second time.
func TestTombstoneIsRenewed(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	db := server.DB(t)
	s := testkit.Open(t, server.URL("postgres", "", "postgres"))
	c := testkit.Claim("left", time.Minute)
	testkit.Leave(t, s, c)
	statement(t, db, "UPDATE holdfast.tombstones SET deadline = 0")
	testkit.Leave(t, s, c)
	testkit.Join(t, s, &c, store.Gone)
}

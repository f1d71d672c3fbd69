package servers

import (
	"database/sql"
	"testing"
)

// openBouncer opens a client that prepares no statements: they would be left behind on a connection of others.
func openBouncer(t *testing.T, b *PgBouncerServer) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", b.URL("postgres")+"&default_query_exec_mode=exec")
	check(t, err)
	return closedWith(t, db)
}

// Two clients share one connection, transaction by transaction.
func TestPgBouncer(t *testing.T) {
	b := PgBouncer(t, Postgres(t, Password("correct horse")), Args("default_pool_size = 1"))
	one, two := openBouncer(t, b), openBouncer(t, b)
	const backend = "SELECT pg_backend_pid()"
	if a, b := scalar(t, one, backend), scalar(t, two, backend); a != b {
		t.Errorf("two clients have connections of their own, to %s and %s", a, b)
	}
	if got := scalar(t, one, "SELECT CAST($1 AS INT) + 1", 41); got != "42" {
		t.Errorf("41 + 1 is %s", got)
	}
}

func TestPgBouncerRestart(t *testing.T) {
	p := Postgres(t)
	b := PgBouncer(t, p)
	db := openBouncer(t, b)
	check(t, db.Ping())
	check(t, b.Stop()) // it does not wait for the client
	check(t, b.Start())
	check(t, b.Kill())
	check(t, b.Start())
	check(t, p.Restart(true))
	await(t, "answer through a server that was restarted", func() bool { return db.Ping() == nil })
}

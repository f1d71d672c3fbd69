package postgres_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sqlstore/postgres"
)

// Servers that only read: a primary that was set so, or that has become a standby.

// A signpost is an address that leads to one server and later to another.
type signpost struct {
	to atomic.Pointer[servers.PostgresServer]
}

func (p *signpost) addr() string { return p.to.Load().Addr() }

// setReadOnly has a server refuse to write, also on connections that there are.
func setReadOnly(t testing.TB, server *servers.PostgresServer) {
	t.Helper()
	db := server.DB(t)
	execute(t, db, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
	testkit.Await(t, "the server only reads", func() bool {
		var on string
		testkit.Must(t, db.QueryRow("SHOW default_transaction_read_only").Scan(&on))
		return on == "on"
	})
}

// A server that has begun to refuse writes is left, and its connections with it: those of calls, and the one that
// listens. Its address leads to another server by then.
func TestReadOnlyServerIsLeft(t *testing.T) {
	t.Parallel()
	before, after := servers.Postgres(t), servers.Postgres(t)
	var way signpost
	way.to.Store(before)
	s := openAt(t, urlAt("127.0.0.1:1"), postgres.Toward(way.addr))
	checkPushed(t, before.DB(t), s)
	held := testkit.Held(t, s, testkit.Claim("held", time.Minute))
	setReadOnly(t, before)
	for name, call := range testkit.Calls(s, held) {
		if name != "Names" {
			testkit.CheckFault(t, call(t.Context()), false, "only reads", "127.0.0.1:1")
		}
	}
	testkit.CheckFault(t, openError(t, urlAt(before.Addr())+"&application_name=new"), false, "only reads", before.Addr())

	openAt(t, urlAt(after.Addr())) // which creates the tables
	way.to.Store(after)
	testkit.Held(t, s, testkit.Claim("held", time.Minute))
	checkPushed(t, after.DB(t), s)
}

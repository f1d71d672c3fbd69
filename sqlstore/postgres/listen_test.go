package postgres_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sqlstore/postgres"
	"github.com/holdfast-go/holdfast/store"
)

// A client is not told of what happens while it cannot listen. When it listens again it asks about all of its claims, also
// if calls have worked all the while.
func TestPushesMissed(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	db := server.DB(t)
	p := testkit.Proxy(t, server.Addr())
	s := openAt(t, urlAt(server.Addr()), postgres.Through(p.Addr()))
	checkPushed(t, db, s)
	told := testkit.Listen(s)
	held := testkit.Held(t, s, testkit.Claim("broken", time.Minute))
	end := p.Refuse()
	execute(t, db, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN %'")
	testkit.Await(t, "a call tells that pushes were lost", func() bool {
		testkit.Keep(t, s, held, store.Held)
		select {
		case id := <-told:
			return id == store.Everyone
		default:
			return false
		}
	})
	testkit.Must(t, openAt(t, urlAt(server.Addr())).Break(t.Context(), "broken", held.Ticket))
	end()
	testkit.AwaitTold(t, told, store.Everyone, "that pushes were missed")
	testkit.Keep(t, s, held, store.Gone)
}

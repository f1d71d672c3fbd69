package postgres_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sqlstore/postgres"
	"github.com/holdfast-go/holdfast/store"
)

// TestListensWhileWaiting: a client listens while claims of it wait, and no longer than a moment after that, over one
// connection. A holder does not listen: that it was broken it learns from its next Keep.
func TestListensWhileWaiting(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	db := server.DB(t)
	s := openAt(t, urlAt(server.Addr()))
	held := testkit.Held(t, s, testkit.Claim("x", time.Minute))
	testkit.Keep(t, s, held, store.Held)
	listening := func() bool { return scalar(t, db, "SELECT count(*) "+listeners, 0) != "0" }
	if listening() {
		t.Error("a holder listens")
	}
	var pid int
	for range 2 {
		waiter := testkit.Waiting(t, s, testkit.Claim("x", time.Minute))
		again := awaitListener(t, db, 0)
		if pid != 0 && pid != again {
			t.Errorf("it listens with process %d, and then with %d", pid, again)
		}
		time.Sleep(2 * time.Second)   // longer than it listens once it does not wait
		pid = awaitListener(t, db, 0) // on a stalled machine with another connection
		testkit.Leave(t, s, waiter)
		testkit.Await(t, "it no longer listens", func() bool { return !listening() })
	}
	told := testkit.Listen(s)
	testkit.Must(t, s.Break(t.Context(), "x", held.Ticket))
	testkit.Keep(t, s, held, store.Gone)
	if len(told) > 0 {
		t.Errorf("it was told of %v", <-told)
	}
}

// TestPushesMissed: a client whose listening connection is lost, and that cannot listen for now, is told that it may
// have missed something, and finds its grants by looking.
func TestPushesMissed(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	db := server.DB(t)
	p := testkit.Proxy(t, server.Addr())
	s := openAt(t, urlAt(server.Addr()), postgres.WithListener(urlAt(p.Addr())))
	told := testkit.Listen(s)
	held := testkit.Held(t, s, testkit.Claim("x", time.Minute))
	waiter := testkit.Waiting(t, s, testkit.Claim("x", time.Minute))
	awaitListener(t, db, 0)
	end := p.Refuse()
	defer end()
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
	testkit.Leave(t, s, held)
	testkit.AwaitTold(t, told, waiter.ID, "the grant")
	testkit.Keep(t, s, waiter, store.Held)
}

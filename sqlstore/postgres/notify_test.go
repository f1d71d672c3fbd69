package postgres_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sqlstore/postgres"
	"github.com/holdfast-go/holdfast/store"
	"github.com/jackc/pgx/v5"
)

// listeners selects the servers' processes that clients listen with.
const listeners = `FROM pg_stat_activity WHERE query LIKE 'LISTEN "holdfast_%' AND state = 'idle' AND pid <> $1`

// awaitListener waits until a client listens with another process than this, and returns its id.
func awaitListener(t *testing.T, db *sql.DB, other int) (pid int) {
	t.Helper()
	testkit.Await(t, "a client listens", func() bool {
		pid, _ = strconv.Atoi(scalar(t, db, "SELECT max(pid) "+listeners, other))
		return pid != 0
	})
	return pid
}

// An eavesdropper hears what clients are notified of.
type eavesdropper struct{ conn *pgx.Conn }

// eavesdrop listens to the client of a claim that stands.
func eavesdrop(t *testing.T, server *servers.PostgresServer, c store.Claim) *eavesdropper {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL("postgres", "", "postgres"))
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Check(t, conn.Close(context.Background())) })
	var inbox string
	testkit.Must(t,
		conn.QueryRow(t.Context(), "SELECT inbox FROM holdfast.claims WHERE id = $1", c.ID.String()).Scan(&inbox))
	if inbox == "" {
		t.Fatal("the claim is to be notified at no channel")
	}
	for _, channel := range []string{"holdfast_" + inbox, "the end"} {
		_, err := conn.Exec(t.Context(), "LISTEN "+pgx.Identifier{channel}.Sanitize())
		testkit.Must(t, err)
	}
	return &eavesdropper{conn}
}

// heard returns what was sent since it was last called.
func (e *eavesdropper) heard(t *testing.T) (payloads []string) {
	t.Helper()
	_, err := e.conn.Exec(t.Context(), `NOTIFY "the end"`)
	testkit.Must(t, err)
	for {
		n, err := e.conn.WaitForNotification(t.Context())
		testkit.Must(t, err)
		if n.Channel == "the end" {
			return payloads
		}
		payloads = append(payloads, n.Payload)
	}
}

// want demands that so much was sent since it was last called.
func (e *eavesdropper) want(t *testing.T, when string, payloads ...string) {
	t.Helper()
	if got := e.heard(t); !slices.Equal(got, payloads) {
		t.Errorf("%s: %q was sent, want %q", when, got, payloads)
	}
}

func message(word string, c store.Claim) string { return fmt.Sprintf("%s %s %d", word, c.ID, c.Ticket) }

// TestNotifications: a client is notified of a claim that waited and is granted, once, and of one that was broken.
// Nothing else is sent.
func TestNotifications(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	s := testkit.Open(t, server.URL("postgres", "", "postgres"))
	told := testkit.Listen(s)
	claim := func() store.Claim { return testkit.Claim("x", time.Minute) }
	e := eavesdrop(t, server, testkit.Held(t, s, testkit.Claim("other", time.Minute)))
	for range 10 {
		c := testkit.Held(t, s, claim())
		testkit.Keep(t, s, c, store.Held)
		testkit.Leave(t, s, c)
	}
	e.want(t, "nobody waits")
	holder := testkit.Held(t, s, claim())
	var waiters []store.Claim
	for range 4 {
		waiters = append(waiters, testkit.Waiting(t, s, claim()))
	}
	testkit.Keep(t, s, waiters[0], store.Waiting)
	refused := claim()
	refused.Try = true
	testkit.Join(t, s, &refused, store.Gone)
	testkit.Leave(t, s, waiters[2])
	e.want(t, "nobody is granted")
	testkit.Leave(t, s, holder)
	e.want(t, "the holder leaves", message("held", waiters[0]))
	testkit.AwaitTold(t, told, waiters[0].ID, "it is told")
	testkit.Leave(t, s, waiters[0])
	e.want(t, "the next leaves", message("held", waiters[1]))
	testkit.Must(t, s.Break(t.Context(), "x", waiters[1].Ticket))
	e.want(t, "the holder is broken", message("gone", waiters[1]), message("held", waiters[3]))
	testkit.Leave(t, s, waiters[3])
	e.want(t, "the last leaves")
}

// TestLostNotification: a client whose notification goes astray finds its grant by looking, although it listens.
func TestLostNotification(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	db := server.DB(t)
	s := testkit.Open(t, server.URL("postgres", "", "postgres"))
	told := testkit.Listen(s)
	holder := testkit.Held(t, s, testkit.Claim("x", time.Minute))
	waiter := testkit.Waiting(t, s, testkit.Claim("x", time.Minute))
	awaitListener(t, db, 0)
	statement(t, db, "UPDATE holdfast.claims SET inbox = 'elsewhere'")
	testkit.Leave(t, s, holder)
	testkit.AwaitTold(t, told, waiter.ID, "the grant")
}

// TestListenerReconnects: a client whose listening process was ended listens again, is told that it may have missed
// something, and is notified of the next grant.
func TestListenerReconnects(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	db := server.DB(t)
	s := testkit.Open(t, server.URL("postgres", "", "postgres"))
	told := testkit.Listen(s)
	holder := testkit.Held(t, s, testkit.Claim("x", time.Minute))
	waiter := testkit.Waiting(t, s, testkit.Claim("x", time.Minute))
	pid := awaitListener(t, db, 0)
	statement(t, db, "SELECT pg_terminate_backend($1)", pid)
	testkit.AwaitTold(t, told, store.Everyone, "pushes were lost")
	if again := awaitListener(t, db, pid); again == pid {
		t.Errorf("it listens with the process %d that was ended", pid)
	}
	statement(t, db,
		"SELECT pg_notify('holdfast_' || inbox, 'held ' || id || ' ' || ticket) FROM holdfast.claims WHERE id = $1",
		waiter.ID.String())
	testkit.AwaitTold(t, told, waiter.ID, "what only a notification says")
	testkit.Keep(t, s, waiter, store.Waiting)
	testkit.Leave(t, s, holder)
}

// A pooled is a connection as through a pooler: the process id that the client is given is not the server's.
type pooled struct{ net.Conn }

func (p pooled) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if i := bytes.Index(b[:n], []byte("K\x00\x00\x00\x0c")); i >= 0 && n >= i+9 { // BackendKeyData, with the id
		b[i+8]++
	}
	return n, err
}

// TestPoolerIsNotListenedThrough: a client behind a pooler listens to nothing, has nothing sent to it, and is granted
// all the same.
func TestPoolerIsNotListenedThrough(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	db := server.DB(t)
	s, err := postgres.Open(t.Context(), server.URL("postgres", "", "postgres"),
		postgres.Over(func(conn net.Conn) net.Conn { return pooled{conn} }))
	testkit.Must(t, err)
	defer s.Close()
	told := testkit.Listen(s)
	first := testkit.Held(t, s, testkit.Claim("x", time.Minute))
	waiter := testkit.Waiting(t, s, testkit.Claim("x", time.Minute))
	testkit.Await(t, "the pooler is found, and no claim is to be notified", func() bool {
		testkit.Keep(t, s, first, store.Held)
		testkit.Keep(t, s, waiter, store.Waiting)
		return scalar(t, db, "SELECT string_agg(inbox, '') FROM holdfast.claims") == ""
	})
	testkit.Leave(t, s, first)
	testkit.AwaitTold(t, told, waiter.ID, "the grant")
	if queries := scalar(t, db, "SELECT string_agg(query, '; ') FROM pg_stat_activity"); strings.Contains(queries,
		"LISTEN ") {
		t.Errorf("it listens: %s", queries)
	}
}

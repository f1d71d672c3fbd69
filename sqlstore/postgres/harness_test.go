package postgres_test

import (
	"bytes"
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/sqlstore/postgres"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		server := servers.Postgres(t)
		return &harness{server: server, address: server.Addr(), db: server.DB(t), through: postgres.Through}
	})
}

// TestStoreSerializable: a database may have another isolation level as its default.
func TestStoreSerializable(t *testing.T) {
	t.Parallel()
	storetest.RunSome(t, func(t testing.TB) storetest.Harness {
		server := servers.Postgres(t, servers.Args("-c", "default_transaction_isolation=serializable"))
		return &harness{server: server, address: server.Addr(), db: server.DB(t), through: postgres.Through}
	}, "methods", "exclusion", "order", "names")
}

// A harness is a PostgreSQL server with a hand on its switches.
type harness struct {
	server  *servers.PostgresServer
	address string  // where clients connect: the server, or a pooler
	db      *sql.DB // an operator's, past the proxies
	through func(address string) postgres.Option
}

// classify tells the connection that listens from the others.
func classify(sent []byte) proxy.Flow {
	if bytes.Contains(sent, []byte("LISTEN ")) {
		return proxy.Pushes
	}
	return proxy.Replies
}

func (h *harness) Open(t testing.TB, prefix string) (store.Store, storetest.Link) {
	t.Helper()
	p := testkit.Proxy(t, h.address, proxy.Classify(classify))
	s, err := postgres.Open(t.Context(), urlAt(h.address), postgres.WithPrefix(prefix), h.through(p.Addr()))
	testkit.Must(t, err)
	return s, p.Link()
}

func (h *harness) Advance(d time.Duration) { time.Sleep(d) }

// Restart waits for a pooler, too: one that met the server while it was down lets no client in for a moment.
func (h *harness) Restart(keepData bool) error {
	if err := h.server.Restart(keepData); err != nil {
		return err
	}
	db, err := sql.Open("pgx", urlAt(h.address))
	if err != nil {
		return err
	}
	defer db.Close()
	testkit.Soon(10*time.Second, func() bool { err = db.Ping(); return err == nil })
	return err
}

func (h *harness) Erase(name string, id store.ID) error {
	_, err := h.db.Exec("DELETE FROM holdfast.claims WHERE prefix = '' AND name = $1 AND id = $2", name, id.String())
	return err
}

// Residue has the store swept first, as its clients do every minute.
func (h *harness) Residue(name string) (n int, err error) {
	if _, err := h.db.Exec("UPDATE holdfast.meta SET swept = 0"); err != nil {
		return 0, err
	}
	s, err := postgres.New(context.Background(), h.db) // which sweeps
	if err != nil {
		return 0, err
	}
	if err := s.Close(); err != nil {
		return 0, err
	}
	err = h.db.QueryRow(`SELECT (SELECT count(*) FROM holdfast.claims WHERE name = $1) +
		(SELECT count(*) FROM holdfast.tombstones WHERE name = $1)`, name).Scan(&n)
	return n, err
}

func (h *harness) PlantNewer(name string) error {
	s, err := postgres.New(context.Background(), h.db) // which creates the tables
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = h.db.Exec(`INSERT INTO holdfast.claims (prefix, name, seat, slot, ticket, id, state, kind, units, capacity,
		deadline, ttl, grace, since, turn, inbox, waits, details, format)
		VALUES ('', $1, 7, 0, 7, 'a new form of id', 'waiting', 'a new kind', 1, 1, 0, 0, 0, 0, 0, '', '', '{}', 3)`,
		name)
	return err
}

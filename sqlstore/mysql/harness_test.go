package mysql_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/sqlstore/mysql"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		return newHarness(t)
	})
}

// A harness is a MariaDB server with a hand on its switches.
type harness struct {
	server *servers.MariaDBServer
	db     *sql.DB // an operator's, past the proxies
}

// database keeps the locks.
const database = "locks"

func newHarness(t testing.TB, options ...servers.Option) *harness {
	t.Helper()
	server := servers.MariaDB(t, options...)
	h := &harness{server: server, db: server.DB(t)}
	testkit.Must(t, h.makeDatabase())
	return h
}

func (h *harness) makeDatabase() error {
	_, err := h.db.Exec("CREATE DATABASE IF NOT EXISTS " + database)
	return err
}

func (h *harness) Open(t testing.TB, prefix string) (store.Store, storetest.Link) {
	t.Helper()
	p := testkit.Proxy(t, h.server.Addr())
	s, err := mysql.Open(t.Context(), h.server.URL("root", "", database), mysql.WithPrefix(prefix),
		mysql.Through(p.Addr()))
	testkit.Must(t, err)
	return s, link{p.Link()}
}

// A link has no pushes to hold: the database answers, and no more.
type link struct{ *proxy.Link }

func (link) HoldPushes() (release func()) { return func() {} }

func (link) DropPushes(bool) {}

func (h *harness) Advance(d time.Duration) { time.Sleep(d) }

func (h *harness) Restart(keepData bool) error {
	if err := h.server.Restart(keepData); err != nil {
		return err
	}
	return h.makeDatabase()
}

func (h *harness) Erase(name string, id store.ID) error {
	_, err := h.db.Exec("DELETE FROM locks.holdfast_claims WHERE prefix = '' AND name = ? AND id = ?", name,
		id.String())
	return err
}

// Residue has the store swept first, as its clients do every minute.
func (h *harness) Residue(name string) (n int, err error) {
	if err := h.sweep(); err != nil {
		return 0, err
	}
	err = h.db.QueryRow(`SELECT (SELECT COUNT(*) FROM locks.holdfast_claims WHERE name = ?) +
		(SELECT COUNT(*) FROM locks.holdfast_tombstones WHERE name = ?)`, name, name).Scan(&n)
	return n, err
}

// sweep has the store swept now.
func (h *harness) sweep() error {
	if _, err := h.db.Exec("UPDATE locks.holdfast_meta SET swept = 0"); err != nil {
		return err
	}
	return h.openOnce() // which sweeps
}

// openOnce opens and closes a store.
func (h *harness) openOnce() error {
	s, err := mysql.Open(context.Background(), h.server.URL("root", "", database))
	if err != nil {
		return err
	}
	return s.Close()
}

func (h *harness) PlantNewer(name string) error {
	if err := h.openOnce(); err != nil { // which creates the tables
		return err
	}
	_, err := h.db.Exec(`INSERT INTO locks.holdfast_claims (prefix, name, seat, slot, ticket, id, state, kind, units,
		capacity, deadline, ttl, grace, since, turn, inbox, waits, details, format)
		VALUES ('', ?, 7, 0, 7, 'a new form of id', 'waiting', 'a new kind', 1, 1, 0, 0, 0, 0, 0, '', '', '{}', 4)`,
		name)
	return err
}

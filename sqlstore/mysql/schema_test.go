package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/sqlstore/mysql"
	"github.com/holdfast-go/holdfast/store"
)

// TestSchemaWithClient: what Schema and Grants return can be run with the client of the server, also twice, and a user
// who may not create anything can use it.
func TestSchemaWithClient(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(t, "CREATE USER 'app'@'%'")
	client := servers.Need(t, "mariadb")
	for _, script := range []string{mysql.Schema(), mysql.Schema(), mysql.Grants()} {
		command := exec.CommandContext(t.Context(), client, "--no-defaults", "--socket="+h.server.Socket(),
			"--user=root", database)
		command.Stdin = strings.NewReader(script)
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	checkWorks(t, h.openAs(t, "app"))
}

// TestMigration: clients of the next version bring the tables to its format, all at once. From then on this version
// refuses them.
func TestMigration(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	testkit.Must(t, h.openOnce())
	step := "\nDELIMITER //\nALTER TABLE holdfast_meta ADD COLUMN note INT //\n" +
		"UPDATE holdfast_slots SET format = 4 //\nDELIMITER ;\n"
	const clients = 4
	done := make(chan error, clients)
	for range clients {
		db := h.pool(t, "")
		go func() { done <- mysql.Prepare(t.Context(), db, 4, step) }()
	}
	for range clients {
		testkit.Check(t, <-done)
	}
	h.exec(t, "UPDATE holdfast_meta SET note = 1")
	if err := h.openOnce(); !errors.Is(err, store.ErrFormat) {
		t.Errorf("Open: %v", err)
	}
	if err := mysql.Prepare(t.Context(), h.pool(t, ""), 6, step); err == nil {
		t.Error("a step is missing, and nobody cares")
	}
}

// TestSnapshotAfterLock: a call waits for the lock of its slot while another client takes the only unit. It must not
// see the line as it was before. With procedures whose snapshot is older than their lock it does: it gets the unit too,
// and only the key of the table keeps it from a second exclusive lock.
func TestSnapshotAfterLock(t *testing.T) {
	t.Parallel()
	broken := strings.NewReplacer("READ COMMITTED;", "REPEATABLE READ;",
		"START TRANSACTION;", "START TRANSACTION WITH CONSISTENT SNAPSHOT;").Replace(mysql.Schema())
	for name, script := range map[string]string{"right": mysql.Schema(), "broken": broken} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			s := h.open(t)
			conn, err := h.db.Conn(t.Context())
			testkit.Must(t, err)
			defer conn.Close()
			_, err = conn.ExecContext(t.Context(), "USE "+database)
			testkit.Must(t, err)
			testkit.Must(t, mysql.Install(t.Context(), conn, script))
			unit := claim("unit")
			unit.Demand = store.Demand{Kind: store.Semaphore, Units: 1, Limit: 1}
			status, err := h.joinBehind(t, s, unit)
			testkit.Must(t, err)
			lock, err := h.joinBehind(t, s, claim("lock"))
			if name == "right" {
				testkit.Must(t, err)
				if status.State != store.Waiting || lock.State != store.Waiting {
					t.Errorf("they are %v and %v, want waiting", status.State, lock.State)
				}
			} else if status.State != store.Held || err == nil || !strings.Contains(err.Error(), "1062") {
				t.Errorf("one is %v, the other %v with %v; want held and a duplicate key", status.State, lock.State,
					err)
			}
		})
	}
}

// awaitJoin waits until a Join waits for its slot.
func (h *harness) awaitJoin(t testing.TB) {
	t.Helper()
	testkit.Await(t, "the call waits for its slot", func() bool {
		var waiting int
		err := h.db.QueryRow(`SELECT COUNT(*) FROM information_schema.processlist
			WHERE info LIKE 'UPDATE holdfast_slots%'`).Scan(&waiting)
		return err == nil && waiting == 1
	})
}

// joinBehind joins while an operator has all slots, and writes a claim like c before it lets them go.
func (h *harness) joinBehind(t testing.TB, s *sqlstore.Store, c store.Claim) (status store.Status, err error) {
	t.Helper()
	operator, err := h.db.BeginTx(t.Context(), nil)
	testkit.Must(t, err)
	_, err = operator.Exec("SELECT * FROM locks.holdfast_slots FOR UPDATE")
	testkit.Must(t, err)
	joined := make(chan struct{})
	go func() {
		defer close(joined)
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
		defer cancel()
		status, err = s.Join(ctx, c)
	}()
	h.awaitJoin(t)
	seat := 7
	if c.Exclusive() {
		seat = 0
	}
	deadline := time.Now().Add(time.Minute).UnixMicro()
	_, failed := operator.Exec(`INSERT INTO locks.holdfast_claims (prefix, name, seat, slot, ticket, id, state, kind,
		units, capacity, deadline, ttl, grace, since, turn, inbox, waits, details, format)
		VALUES ('', ?, ?, 0, 7, 'other', 'held', ?, ?, ?, ?, 60000000, 0, 0, 0, '', '', '{}', 1)`,
		c.Name, seat, c.Kind.String(), c.Units, c.Limit, deadline)
	testkit.Must(t, failed)
	testkit.Must(t, operator.Commit())
	<-joined
	return status, err
}

// TestClockAfterLock: a call reads the clock when it has got the lock that it has waited for, also on a server whose
// SYSDATE is when the statement began.
func TestClockAfterLock(t *testing.T) {
	t.Parallel()
	h := newHarness(t, servers.Args("--sysdate-is-now"))
	s := h.open(t)
	operator, err := h.db.BeginTx(t.Context(), nil)
	testkit.Must(t, err)
	_, err = operator.Exec("SELECT * FROM locks.holdfast_slots FOR UPDATE")
	testkit.Must(t, err)
	joined := make(chan error, 1)
	go func() {
		_, err := s.Join(t.Context(), claim("late"))
		joined <- err
	}()
	h.awaitJoin(t)
	time.Sleep(50 * time.Millisecond) // by so much is the clock ahead that it must read
	var released, since int64
	testkit.Must(t, operator.QueryRow("SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)").Scan(&released))
	testkit.Must(t, operator.Commit())
	testkit.Must(t, <-joined)
	testkit.Must(t, h.db.QueryRow("SELECT since FROM locks.holdfast_claims").Scan(&since))
	if since < released {
		t.Errorf("the claim is of %d, and the lock was free at %d", since, released)
	}
}

// TestTombstoneIsRenewed: a Leave that is repeated keeps its claim from joining for as long as the last one says.
func TestTombstoneIsRenewed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.open(t)
	ghost := claim("ghost")
	testkit.Leave(t, s, ghost)
	h.exec(t, "UPDATE holdfast_tombstones SET deadline = 1")
	testkit.Leave(t, s, ghost)
	testkit.Join(t, s, &ghost, store.Gone)
}

// TestExplain: what the server's errors mean to a user, and whether a retry is of use.
func TestExplain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		number uint16
		final  bool
		words  string
	}{
		{1045, true, "user or password"}, {1049, true, "no such database"}, {1044, true, "privileges"},
		{1142, true, "privileges"}, {1370, true, "privileges"}, {1290, false, "read-only"}, {1836, false, "read-only"},
		{1792, false, "read-only"}, {1054, true, "altered"}, {1146, true, "altered"}, {1305, true, "altered"},
		{1021, false, "disk is full"}, {1114, false, "disk is full"}, {1040, false, "no connection left"},
		{1053, false, "stopping"}, {1317, false, "ended this connection or call"}, {1665, true, "binlog_format"},
		{1047, false, "cut off"}, {3100, false, "cut off"}, {1461, false, "max_prepared_stmt_count"},
		{3159, true, "TLS"}, {1213, false, "1213"}, {1205, false, "1205"},
	} {
		why, final := mysql.Explain(fmt.Errorf("call: %w", &driver.MySQLError{Number: c.number}))
		if final != c.final || !strings.Contains(why.Error(), c.words) {
			t.Errorf("%d: final %v, %v; want final %v with %q", c.number, final, why, c.final, c.words)
		}
	}
}

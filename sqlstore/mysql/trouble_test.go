package mysql_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/sqlstore/mysql"
	"github.com/holdfast-go/holdfast/store"
)

// Servers that refuse, change their part, or were changed, and what a store makes of it.

// open opens a store as root, or ends the test.
func (h *harness) open(t testing.TB, options ...mysql.Option) *sqlstore.Store {
	t.Helper()
	return h.openAs(t, "root", options...)
}

func (h *harness) openAs(t testing.TB, user string, options ...mysql.Option) *sqlstore.Store {
	t.Helper()
	s, err := mysql.Open(t.Context(), h.server.URL(user, "", database), options...)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Check(t, s.Close()) })
	return s
}

// exec runs statements as the operator, in the database.
func (h *harness) exec(t testing.TB, statements ...string) {
	t.Helper()
	conn, err := h.db.Conn(t.Context())
	testkit.Must(t, err)
	defer conn.Close()
	for _, statement := range slices.Concat([]string{"USE " + database}, statements, []string{"USE mysql"}) {
		_, err := conn.ExecContext(t.Context(), statement)
		testkit.Must(t, err)
	}
}

// pool returns a database of the program's own, with one connection.
func (h *harness) pool(t testing.TB, parameters string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", fmt.Sprintf("root@tcp(%s)/%s?%s", h.server.Addr(), database, parameters))
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Check(t, db.Close()) })
	db.SetMaxOpenConns(1)
	return db
}

// claim returns a claim that no slow machine lets expire.
func claim(name string) store.Claim { return testkit.Claim(name, time.Minute) }

// tour makes every call of a store, and returns the first error.
func tour(ctx context.Context, s store.Store) (err error) {
	holder, waiter, hasty, ghost := claim("tour"), claim("tour"), claim("tour"), claim("tour")
	hasty.Try = true
	join := func(c *store.Claim, want store.State) {
		status, e := s.Join(ctx, *c)
		if c.Ticket = status.Ticket; e == nil && status.State != want {
			e = fmt.Errorf("it is %v, want %v", status.State, want)
		}
		err = cmp.Or(err, e)
	}
	keep := func(c store.Claim, want store.State) {
		statuses, e := s.Keep(ctx, []store.Claim{c})
		if e == nil && statuses[0].State != want {
			e = cmp.Or(statuses[0].Err, fmt.Errorf("it is %v, want %v", statuses[0].State, want))
		}
		err = cmp.Or(err, e)
	}
	join(&holder, store.Held)
	join(&waiter, store.Waiting)
	join(&hasty, store.Gone)
	err = cmp.Or(err, s.Leave(ctx, ghost)) // its Join may still come
	keep(holder, store.Held)
	heir := claim("tour")
	_, e := s.(store.Detacher).Detach(ctx, holder, store.ID{1}, time.Minute)
	err = cmp.Or(err, e)
	status, e := s.(store.Detacher).Attach(ctx, heir, store.ID{1})
	if e == nil && status.State != store.Held {
		e = fmt.Errorf("it is %v when it is attached", status.State)
	}
	err = cmp.Or(err, e)
	line, e := s.Queue(ctx, "tour")
	if err = cmp.Or(err, e); err == nil && len(line.Entries) != 2 {
		err = fmt.Errorf("the line is %+v", line)
	}
	for name, e := range s.Names(ctx, "to") {
		if err = cmp.Or(err, e); err == nil && name != "tour" {
			err = fmt.Errorf("a name is %q", name)
		}
	}
	err = cmp.Or(err, s.Break(ctx, "tour", holder.Ticket))
	keep(waiter, store.Held)
	return cmp.Or(err, s.Leave(ctx, waiter), s.Leave(ctx, holder))
}

func checkWorks(t testing.TB, s store.Store) {
	t.Helper()
	testkit.Check(t, tour(t.Context(), s))
}

func TestRefusedAtOpen(t *testing.T) {
	t.Parallel()
	h := newHarness(t, servers.Password(testkit.Secret+"!"))
	h.exec(t, "CREATE USER 'poor'@'%'", "GRANT USAGE ON *.* TO 'poor'@'%'",
		"CREATE USER 'reader'@'%'", "GRANT SELECT ON locks.* TO 'reader'@'%'")
	open := func(url string) error {
		s, err := mysql.Open(t.Context(), url)
		if err == nil {
			testkit.Check(t, s.Close())
		}
		return err
	}
	testkit.CheckFault(t, open(h.server.URL("root", testkit.Secret, database)), true,
		"mysql at "+h.server.Addr(), "password")
	testkit.CheckFault(t, open(h.server.URL("root", testkit.Secret+"!", "nowhere")), true, "no such database")
	testkit.CheckFault(t, open(h.server.URL("root", testkit.Secret+"!", "")), true, "no database is selected")
	testkit.CheckFault(t, open(h.server.URL("poor", "", database)), true, "privileges")
	testkit.CheckFault(t, open(h.server.URL("reader", "", database)), true, "holdfast schema mysql")
	testkit.CheckFault(t, open(h.server.URL("root", testkit.Secret+"!", database)+"?tls=true"), true, "TLS")
	testkit.CheckFault(t, open("mysql://root:"+testkit.Secret+"@"+testkit.Nobody(t)+"/"+database), false, "refused")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := mysql.Open(ctx, "mysql://root@"+testkit.Silent(t)+"/"+database)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent server: %v", err)
	}
	db, err := sql.Open("mysql",
		fmt.Sprintf("root:%s!@tcp(%s)/%s?autocommit=0", testkit.Secret, h.server.Addr(), database))
	testkit.Must(t, err)
	defer db.Close()
	_, err = mysql.New(t.Context(), db)
	testkit.CheckFault(t, err, true, "autocommit")
	testkit.Check(t, open(h.server.URL("root", testkit.Secret+"!", database)))
}

func TestURLs(t *testing.T) {
	t.Parallel()
	testkit.RefuseURLs(t, map[string]string{
		"mysql://h/d?tls=maybe":                   "tls is true, skip-verify, preferred or false",
		"mysql://h/d?tls=false&ca=/x":             "does not go with",
		"mysql://h/d?tls=false&key=/x":            "does not go with",
		"mysql://h/d?key=/x":                      "cert and key go together",
		"mysql://h/d?ca=/nowhere":                 "ca: the file cannot be read",
		"mariadb://h/d?cert=/x":                   "cert and key go together",
		"mysql://h/d?interpolateParams=true":      "unknown parameter",
		"mysql://h/d?tls=true&tls=false":          "2 times",
		"mysql://h/d?password-file=/nowhere/file": "the password file cannot be read",
	})
	testkit.CheckMasked(t, "mysql://root:"+testkit.Secret+"@"+testkit.Nobody(t)+"/d")
}

func TestTLS(t *testing.T) {
	t.Parallel()
	certificates := servers.NewCertificates(t)
	h := newHarness(t, servers.TLS(certificates))
	url := h.server.URL("root", "", database)
	for query, works := range map[string]bool{
		"": true, "?tls=preferred": true, "?tls=skip-verify": true, "?tls=true&ca=" + certificates.CAFile: true,
		"?ca=" + certificates.CAFile: true, "?tls=true": false, "?tls=false": false, // MariaDB then refuses the user
	} {
		s, err := mysql.Open(t.Context(), url+query)
		if works {
			testkit.Must(t, err)
			checkWorks(t, s)
			testkit.Check(t, s.Close())
		} else {
			testkit.CheckFault(t, err, true, "TLS")
		}
	}
}

// TestCredentials: the password is read anew for each connection.
func TestCredentials(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(t, "CREATE USER 'app'@'%' IDENTIFIED BY 'first'", "GRANT ALL ON locks.* TO 'app'@'%'")
	file := filepath.Join(t.TempDir(), "password")
	testkit.Must(t, os.WriteFile(file, []byte("first\n"), 0o600))
	s := testkit.Open(t, h.server.URL("app", "", database)+"?password-file="+file)
	checkWorks(t, s)
	h.exec(t, "ALTER USER 'app'@'%' IDENTIFIED BY 'second'")
	testkit.Must(t, os.WriteFile(file, []byte("second\n"), 0o600))
	_, err := h.killConnections()
	testkit.Must(t, err)
	testkit.Await(t, "the new password is used", func() bool { return tour(t.Context(), s) == nil })

	called := h.openAs(t, "nobody", mysql.WithCredentials(func(context.Context) (user, password string, err error) {
		return "app", "second", nil
	}))
	checkWorks(t, called)
}

// TestGrants: the script of grants lets a user do all that a client does, and each line of it is needed.
func TestGrants(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	testkit.Must(t, h.openOnce())
	_, script, _ := strings.Cut(mysql.Grants(), "'app'@'%'.\n") // after the comment
	grants := strings.Split(strings.TrimSuffix(script, ";\n"), ";\n")
	h.exec(t, append([]string{"CREATE USER 'app'@'%'"}, grants...)...)
	checkWorks(t, h.openAs(t, "app"))
	for _, grant := range grants {
		h.exec(t, strings.Replace(strings.Replace(grant, "GRANT", "REVOKE", 1), " TO ", " FROM ", 1),
			"UPDATE holdfast_meta SET swept = 0", "DELETE FROM holdfast_claims")
		s, err := mysql.Open(t.Context(), h.server.URL("app", "", database))
		if err == nil {
			err = tour(t.Context(), s)
			testkit.Check(t, s.Close())
		}
		var swept int64
		testkit.Must(t, h.db.QueryRow("SELECT swept FROM locks.holdfast_meta").Scan(&swept))
		if err != nil {
			testkit.CheckFault(t, err, true, "privileges")
		} else if swept > 0 && !strings.Contains(grant, "holdfast_look") { // without it, waiters hear of a grant late
			t.Errorf("all works without %s", grant)
		}
		h.exec(t, grant)
	}
}

// TestMayInstall: a user with exactly what the error of a refused one lists creates the tables, begins again, and uses
// them.
func TestMayInstall(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(t, "CREATE USER 'app'@'%'", "GRANT SELECT ON locks.* TO 'app'@'%'")
	_, err := mysql.Open(t.Context(), h.server.URL("app", "", database))
	testkit.CheckFault(t, err, true, "or grant this user CREATE")
	_, list, _ := strings.Cut(err.Error(), "or grant this user ")
	list, _, _ = strings.Cut(list, " on the database")
	h.exec(t, "GRANT "+strings.Replace(list, " and ", ", ", 1)+" ON locks.* TO 'app'@'%'")
	checkWorks(t, h.openAs(t, "app"))
	h.exec(t, "DROP TABLE holdfast_slots") // as if it had been interrupted before the end
	checkWorks(t, h.openAs(t, "app"))
}

// TestStatementBinaryLog: the first claim says that a binary log of statements will not do.
func TestStatementBinaryLog(t *testing.T) {
	t.Parallel()
	s := newHarness(t, servers.Args("--binlog-format=STATEMENT")).open(t)
	_, err := s.Join(t.Context(), claim("statement"))
	testkit.CheckFault(t, err, true, "binlog_format has to be ROW or MIXED")
}

// TestOpenAtOnce: many clients create the tables at the same time, and one of them does.
func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	const clients = 8
	opened := make(chan error, clients)
	for range clients {
		go func() { opened <- h.openOnce() }()
	}
	for range clients {
		testkit.Check(t, <-opened)
	}
	checkWorks(t, h.open(t))
}

// TestNewerTables: a program that knows only an older format touches nothing, whether it meets the newer one when it
// opens or later.
func TestNewerTables(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.open(t)
	held := testkit.Held(t, s, claim("held"))
	h.exec(t, "UPDATE holdfast_slots SET format = 4")
	if err := h.openOnce(); !errors.Is(err, store.ErrFormat) {
		t.Errorf("Open: %v", err)
	}
	for name, call := range testkit.Calls(s, held) {
		if err := call(t.Context()); name != "Names" && name != "Keep" && !errors.Is(err, store.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	statuses, err := s.Keep(t.Context(), []store.Claim{held})
	if testkit.Must(t, err); !errors.Is(statuses[0].Err, store.ErrFormat) {
		t.Errorf("Keep: %+v", statuses[0])
	}
	var claims int
	testkit.Must(t, h.db.QueryRow("SELECT COUNT(*) FROM locks.holdfast_claims").Scan(&claims))
	if claims != 1 {
		t.Errorf("there are %d claims, and there was 1", claims)
	}
}

// TestAlteredTables: the tables or procedures were changed under a client.
func TestAlteredTables(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, statement := range []string{
		"ALTER TABLE holdfast_claims DROP COLUMN turn",
		"ALTER TABLE holdfast_claims ADD COLUMN more INT NOT NULL",
		"DROP TABLE holdfast_tombstones",
		"DROP PROCEDURE holdfast_join",
		"DROP PROCEDURE holdfast_tidy",
		"DELETE FROM holdfast_slots",
	} {
		h.exec(t, "DROP DATABASE locks", "CREATE DATABASE locks")
		s := h.open(t)
		holder := testkit.Held(t, s, claim("altered"))
		h.exec(t, statement)
		_, err := s.Join(t.Context(), claim("altered"))
		if err == nil {
			t.Errorf("%s: a claim has joined", statement)
			continue
		}
		testkit.CheckFault(t, err, true, "holdfast schema mysql")
		_ = s.Leave(t.Context(), holder)
	}
}

// TestDemotedServerIsLeft: a primary was made read-only, and its address leads to another server by then. Only a new
// connection finds it. That the user may still write does not help: the writes reach no other client.
func TestDemotedServerIsLeft(t *testing.T) {
	t.Parallel()
	before, after := newHarness(t), newHarness(t)
	var way atomic.Pointer[harness]
	way.Store(before)
	s := before.open(t, mysql.ThroughAny(func() string { return way.Load().server.Addr() }))
	testkit.Held(t, s, claim("demoted"))
	testkit.Must(t, after.openOnce())
	way.Store(after)
	before.exec(t, "SET GLOBAL read_only = 1")
	testkit.Held(t, s, claim("demoted"))
	if n := claimsIn(t, after); n != 1 {
		t.Errorf("the new primary has %d claims", n)
	}
	if n := claimsIn(t, before); n != 1 {
		t.Errorf("the old primary has %d claims", n)
	}
}

func claimsIn(t *testing.T, h *harness) (n int) {
	t.Helper()
	testkit.Must(t, h.db.QueryRow("SELECT COUNT(*) FROM locks.holdfast_claims").Scan(&n))
	return n
}

// TestSeveralServers: of the servers in a URL, the one is used that may be written to.
func TestSeveralServers(t *testing.T) {
	t.Parallel()
	one, two := newHarness(t), newHarness(t)
	url := "mysql://root@" + testkit.Nobody(t) + "," + one.server.Addr() + "," + two.server.Addr() + "/" + database
	one.exec(t, "SET GLOBAL read_only = 1")
	s := testkit.Open(t, url)
	testkit.Held(t, s, claim("several"))
	if n := claimsIn(t, two); n != 1 {
		t.Errorf("the second server has %d claims", n)
	}
	two.exec(t, "SET GLOBAL read_only = 1")
	_, err := s.Join(t.Context(), claim("several"))
	testkit.CheckFault(t, err, false, "read-only")
	_, err = mysql.Open(t.Context(), one.server.URL("root", "", database))
	testkit.CheckFault(t, err, false, "read-only")
	one.exec(t, "SET GLOBAL read_only = 0")
	testkit.Must(t, one.openOnce()) // which creates the tables
	testkit.Held(t, s, claim("several"))
	if n := claimsIn(t, one); n != 1 {
		t.Errorf("the first server has %d claims", n)
	}
}

// TestSilentServer: the first of two servers accepts connections and says nothing. The second is found when a store is
// opened, and by calls that have less time than a server may take.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := testkit.Proxy(t, h.server.Addr())
	url := "mysql://root@" + p.Addr() + "," + h.server.Addr() + "/" + database
	before := testkit.Open(t, url)
	checkWorks(t, before)
	end := p.Silence(proxy.All)
	defer end()
	checkWorks(t, testkit.Open(t, url))
	testkit.Await(t, "a short call reaches the second server", func() bool {
		c := testkit.Claim("silent", 300*time.Millisecond)
		_, err := before.Join(t.Context(), c)
		return err == nil
	})
}

// TestServersInTurn: a call that was given up while it waited for one of two servers leaves the other to the next call.
func TestServersInTurn(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	asked := make(chan string, 10)
	ctx, cancel := context.WithCancel(t.Context())
	c, err := mysql.Connector("mysql://root@a.invalid,b.invalid/"+database, func(address string) string {
		asked <- address
		if address == "b.invalid:3306" {
			return h.server.Addr()
		}
		cancel()
		return testkit.Nobody(t)
	})
	testkit.Must(t, err)
	if _, err := c.Connect(ctx); err == nil || len(asked) != 1 {
		t.Errorf("%d servers were asked, and the error is %v", len(asked), err)
	}
	<-asked
	conn, err := c.Connect(t.Context())
	testkit.Must(t, err)
	testkit.Check(t, conn.Close())
	if first := <-asked; first != "b.invalid:3306" {
		t.Errorf("the next call has asked %s first", first)
	}
}

// TestPoolInUse: the program's own queries have all connections. Calls say so, and work again later.
func TestPoolInUse(t *testing.T) {
	t.Parallel()
	db := newHarness(t).pool(t, "")
	s, err := mysql.New(t.Context(), db)
	testkit.Must(t, err)
	defer s.Close()
	conn, err := db.Conn(t.Context())
	testkit.Must(t, err)
	c := testkit.Claim("full", 200*time.Millisecond)
	_, err = s.Join(t.Context(), c)
	testkit.CheckFault(t, err, false, "all connections of the program's pool are in use")
	if fault, ok := errors.AsType[*store.Fault](err); !ok || !fault.Busy {
		t.Errorf("not busy: %v", err)
	}
	testkit.Must(t, conn.Close())
	checkWorks(t, s)
}

// TestIdleConnectionsCut: a middlebox forgets idle connections silently. One call finds out, the next works.
func TestIdleConnectionsCut(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := testkit.Proxy(t, h.server.Addr())
	s := h.open(t, mysql.Through(p.Addr()))
	checkWorks(t, s)
	p.Mute()
	_, err := s.Join(t.Context(), testkit.Claim("cut", 300*time.Millisecond))
	testkit.CheckFault(t, err, false, "no response in")
	_, err = s.Join(t.Context(), claim("next"))
	testkit.Check(t, err)
}

// TestInterruptedCall: an administrator interrupts a call in the middle of its transaction. The call fails, and what it
// had locked is free.
func TestInterruptedCall(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.open(t)
	held := testkit.Held(t, s, claim("interrupted"))
	blocker, err := h.db.BeginTx(t.Context(), nil)
	testkit.Must(t, err)
	_, err = blocker.Exec("SELECT * FROM locks.holdfast_claims WHERE name = 'interrupted' FOR UPDATE")
	testkit.Must(t, err)
	left := make(chan error, 1)
	go func() { left <- s.Leave(t.Context(), held) }()
	testkit.Await(t, "the call waits in the middle", func() bool {
		var id int64
		err := h.db.QueryRow("SELECT id FROM information_schema.processlist WHERE db = 'locks' AND info LIKE " +
			"'DELETE%'").
			Scan(&id)
		if err != nil {
			return false
		}
		_, err = h.db.Exec(fmt.Sprintf("KILL QUERY %d", id))
		return err == nil
	})
	testkit.CheckFault(t, <-left, false, "ended this connection or call")
	testkit.Must(t, blocker.Rollback())
	testkit.Leave(t, s, held)
	testkit.CheckLength(t, s, "interrupted", 0)
}

// TestLockWaitTimeout: the server gives up waiting for a lock, as soon as Open has told it to, and the call is
// repeated, unseen by its caller.
func TestLockWaitTimeout(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.open(t)
	blocker, err := h.db.BeginTx(t.Context(), nil)
	testkit.Must(t, err)
	_, err = blocker.Exec("UPDATE locks.holdfast_slots SET mark = 1 + mark - mark")
	testkit.Must(t, err)
	_, err = blocker.Exec("SELECT * FROM locks.holdfast_slots FOR UPDATE")
	testkit.Must(t, err)
	joined := make(chan error, 1)
	go func() {
		_, err := s.Join(t.Context(), claim("timeout"))
		joined <- err
	}()
	testkit.Await(t, "a call was rolled back", func() bool {
		var name string
		var n int
		err := h.db.QueryRow("SHOW GLOBAL STATUS LIKE 'Com_rollback'").Scan(&name, &n)
		return err == nil && n > 0
	})
	testkit.Must(t, blocker.Rollback())
	testkit.Check(t, <-joined)
}

// TestSessions: stores over connections with other character sets, collations, time zones, isolation levels and
// completion types share one line.
func TestSessions(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	first := h.open(t)
	for i, parameters := range []string{
		"charset=latin1&time_zone=%27-05%3A00%27",
		"charset=latin1&collation=latin1_german2_ci",
		"collation=utf8mb4_general_ci&time_zone=%27%2B13%3A00%27",
		"collation=utf8mb4_bin&tx_isolation=%27SERIALIZABLE%27",
		"charset=binary&sql_mode=%27ANSI%27&interpolateParams=true",
		"completion_type=%27CHAIN%27",
		"completion_type=%27RELEASE%27",
	} {
		s, err := mysql.New(t.Context(), h.pool(t, parameters))
		testkit.Must(t, err)
		checkWorks(t, s)
		for _, name := range []string{"straße ", "straße", "Straße", "日本語/🔒"} {
			holder := testkit.Held(t, first, claim(name))
			waiter := claim(name)
			waiter.Owner = &store.Owner{Label: fmt.Sprintf("größe %d", i)}
			testkit.Join(t, s, &waiter, store.Waiting)
			testkit.Keep(t, s, waiter, store.Waiting)
			line, err := first.Queue(t.Context(), name)
			testkit.Must(t, err)
			if len(line.Entries) != 2 || line.Entries[1].Owner.Label != waiter.Owner.Label {
				t.Errorf("%s: the line of %q is %+v", parameters, name, line)
			} else if left := line.Entries[1].Left; left > time.Minute || left < time.Minute-testkit.Patience {
				t.Errorf("%s: a claim of a minute has %v left", parameters, left)
			}
			testkit.Leave(t, first, holder)
			testkit.Keep(t, s, waiter, store.Held)
			testkit.Leave(t, s, waiter)
		}
		testkit.Check(t, s.Close())
	}
}

// The driver's own log is not wanted.
func init() { _ = driver.SetLogger(&driver.NopLogger{}) }

package doctor_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/doctor"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/store"
	_ "github.com/holdfast-go/holdfast/stores"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// A checked is a report with the means to demand things of it.
type checked struct {
	t *testing.T
	doctor.Report
}

// examine examines the store at a URL. Every finding that is not OK must say why, and what to do; none has the secret.
// That the server responds slowly is ignored, since this machine may be busy: TestRoundTrip is about that.
func examine(t *testing.T, url string) checked {
	t.Helper()
	at, err := store.ParseLocation(url)
	testkit.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	told := 0
	report, err := doctor.Run(ctx, at, func(store.Finding) { told++ })
	testkit.Must(t, err)
	if told != len(report.Findings) {
		t.Errorf("%d findings were told of %d", told, len(report.Findings))
	}
	for _, f := range report.Findings {
		if f.Check == "" || f.Found == "" || f.Level != store.OK && (f.Why == "" || f.Fix == "") {
			t.Errorf("incomplete: %+v", f)
		}
		if strings.Contains(fmt.Sprint(f), secret) || strings.Contains(report.Store, secret) {
			t.Errorf("a secret: %+v", f)
		}
	}
	for i, f := range report.Findings {
		if f.Check == "round trip" && f.Level == store.Warn {
			report.Findings[i].Level = store.OK
		}
	}
	return checked{t, report}
}

const secret = "open-sesame-1"

// want demands a finding of this check and level that says this, and returns r.
func (r checked) want(check string, level store.Level, says string) checked {
	r.t.Helper()
	for _, f := range r.Findings {
		if f.Check == check && f.Level == level && strings.Contains(f.Found, says) {
			return r
		}
	}
	r.t.Errorf("no %v of %s with %q in\n%s", level, check, says, r)
	return r
}

func (r checked) String() string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%-4v %-12s %s\n", f.Level, f.Check, f.Found)
	}
	return b.String()
}

// works demands what every store reports that can be used.
func (r checked) works() checked {
	r.t.Helper()
	return r.want("open", store.OK, "opens in").want("lock", store.OK, "acquired").want("round trip", store.OK, "p99").
		want("version", store.OK, "").want("permissions", store.OK, "").want("clock", store.OK, "").
		want("queues", store.OK, "")
}

// TestRedis sets one server up well, and then wrongly in one way after the other.
func TestRedis(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.Password(secret))
	url := "redis://:" + secret + "@" + server.Addr()
	set := func(args ...string) {
		t.Helper()
		_, err := server.Do(append([]string{"CONFIG", "SET"}, args...)...)
		testkit.Must(t, err)
	}
	set("appendfsync", "always")
	r := examine(t, url).works().
		want("persistence", store.OK, "loses nothing").
		want("eviction", store.OK, "noeviction").
		want("replication", store.OK, "0 replicas").
		want("keys", store.OK, "").
		want("reachable", store.OK, server.Addr())
	if r.Worst() != store.OK {
		t.Errorf("%s", r)
	}
	set("appendfsync", "everysec")
	examine(t, url).want("persistence", store.Warn, "appendfsync is everysec")
	examine(t, url+"?startup-delay=1ms").want("persistence", store.OK, "startup-delay")
	set("appendonly", "no")
	set("maxmemory-policy", "allkeys-lru")
	examine(t, url).want("persistence", store.Warn, "appendonly is off").want("eviction", store.Warn, "no effect")
	set("maxmemory", "1gb")
	r = examine(t, url).want("eviction", store.Fail, "allkeys-lru")
	if r.Worst() != store.Fail {
		t.Errorf("%s", r)
	}
	set("min-replicas-to-write", "1")
	examine(t, url).want("open", store.Fail, "fewer replicas")
	set("min-replicas-to-write", "0")
	examine(t, url+"?wait-replicas=1&wait-timeout=50ms").want("replication", store.Fail, "of which 1 must").
		want("lock", store.Fail, "0 of 1 replicas")

	_, err := server.Do("SET", "holdfast:mine", "1")
	testkit.Must(t, err)
	examine(t, url).want("keys", store.Warn, "holdfast:mine")
	_, err = server.Do("SET", "holdfast:{|x}", "9 from the future")
	testkit.Must(t, err)
	examine(t, url).want("format", store.Warn, "newer version").want("keys", store.Warn, "never expire")

	wrong := examine(t, "redis://:wrong@"+server.Addr())
	wrong.want("reachable", store.OK, "").want("open", store.Fail, "password")
	if wrong.Worst() != store.Fail {
		t.Errorf("%s", wrong)
	}
}

// TestRedisWithoutRights has users who lack one thing or another.
func TestRedisWithoutRights(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.ACL(
		"user default off",
		"user reader on >"+secret+" ~* &* +@read +@connection +info +time",
		"user keyless on >"+secret+" ~other:* &* +@all",
		"user app on >"+secret+" ~holdfast:* &holdfast:* +@all -@dangerous -@admin +info"))
	as := func(user string) checked { return examine(t, "redis://"+user+":"+secret+"@"+server.Addr()) }
	as("reader").want("open", store.Fail, "lacks a permission")
	as("keyless").want("open", store.Fail, "lacks a permission")
	as("app").works().want("permissions", store.OK, "may not read the configuration").
		want("persistence", store.Warn, "not known")
}

// TestRedisReplica: a replica is refused, and its master is warned about.
func TestRedisReplica(t *testing.T) {
	t.Parallel()
	all := servers.RedisReplicas(t, 1)
	addresses := all.Addrs()
	examine(t, "redis://"+addresses[1]).want("open", store.Fail, "replica")
	examine(t, "redis://"+addresses[0]).works().want("replication", store.Warn, "1 replicas, of which 0")
	examine(t, "redis://"+addresses[0]+"?wait-replicas=1").works().
		want("replication", store.OK, "1 replicas, of which 1")
}

// TestRedlock has three nodes, of which one is killed.
func TestRedlock(t *testing.T) {
	t.Parallel()
	nodes := []*servers.RedisServer{servers.Redis(t), servers.Redis(t), servers.Redis(t)}
	url := "redlock://" + nodes[0].Addr() + "," + nodes[1].Addr() + "," + nodes[2].Addr()
	_, err := redlock.Init(t.Context(), url)
	testkit.Must(t, err)
	examine(t, url).works().want("majority", store.OK, "3 of 3 nodes vote").want("persistence", store.OK, "no vote").
		want("replication", store.OK, nodes[2].Addr())
	testkit.Must(t, nodes[2].Kill())
	examine(t, url).want("reachable", store.Warn, "1 of 3").want("majority", store.Warn, "2 of 3 nodes vote").
		want("lock", store.OK, "")
	testkit.Must(t, nodes[1].Kill())
	examine(t, url).want("open", store.Fail, "")
}

// TestPostgres sets one server up wrongly in several ways.
func TestPostgres(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.Args("-c", "fsync=on"))
	url := server.URL("postgres", "", "postgres")
	db := server.DB(t)
	run := func(statement string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), statement)
		testkit.Must(t, err)
	}
	r := examine(t, url).works().want("persistence", store.OK, "synchronous_commit is on").want("listen", store.OK, "").
		want("replication", store.OK, "no standbys").want("tables", store.OK, "")
	if r.Worst() != store.OK {
		t.Errorf("%s", r)
	}
	run("ALTER ROLE postgres SET synchronous_commit = off")
	examine(t, url).want("persistence", store.Fail, "synchronous_commit is off")
	run("ALTER ROLE postgres RESET synchronous_commit")

	pooler := servers.PgBouncer(t, server)
	examine(t, pooler.URL("postgres")).works().want("listen", store.Warn, "pooler")

	run("CREATE ROLE app LOGIN")
	examine(t, server.URL("app", "", "postgres")).want("open", store.Fail, "lacks")
	run("CREATE ROLE reader LOGIN SUPERUSER")
	run("ALTER ROLE reader SET default_transaction_read_only = on")
	examine(t, server.URL("reader", "", "postgres")).want("open", store.Fail, "read")
	examine(t, server.URL("postgres", "", "nowhere")).want("open", store.Fail, "nowhere")

	testkit.Must(t, server.Kill())
	examine(t, url).want("reachable", store.Fail, "refused").want("open", store.Fail, "")
	unsynced := servers.Postgres(t)
	examine(t, unsynced.URL("postgres", "", "postgres")).want("persistence", store.Fail, "fsync is off")
}

// TestMariaDB sets one server up wrongly in several ways.
func TestMariaDB(t *testing.T) {
	t.Parallel()
	server := servers.MariaDB(t)
	db := server.DB(t)
	run := func(statement string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), statement)
		testkit.Must(t, err)
	}
	run("CREATE DATABASE locks")
	url := server.URL("root", "", "locks")
	run("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
	examine(t, url).want("replication", store.Warn, "sync_binlog = 0")
	run("SET GLOBAL sync_binlog = 1")
	examine(t, url).works().want("persistence", store.OK, "is 1").want("replication", store.OK, "").
		want("read-only", store.OK, "")
	run("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
	examine(t, url).want("persistence", store.Fail, "is 2")
	run("SET GLOBAL read_only = ON")
	examine(t, url).want("open", store.Fail, "read")
}

// TestEtcd stops one member of three.
func TestEtcd(t *testing.T) {
	t.Parallel()
	cluster := servers.EtcdCluster(t, 3)
	url := "etcd://" + cluster.Nodes[0].Addr() + "," + cluster.Nodes[1].Addr() + "," + cluster.Nodes[2].Addr()
	r := examine(t, url).works().want("majority", store.OK, "3 of 3").want("alarms", store.OK, "none").
		want("keys", store.OK, "")
	if r.Worst() != store.OK {
		t.Errorf("%s", r)
	}
	testkit.Must(t, cluster.Nodes[2].Kill())
	examine(t, url).want("reachable", store.Warn, "1 of 3").want("majority", store.Warn, "2 of 3 members respond")
}

// TestSingleMembers examines those servers that should be several.
func TestSingleMembers(t *testing.T) {
	t.Parallel()
	zookeeper := servers.ZooKeeper(t)
	examine(t, "zk://"+zookeeper.Addr()+"?ttl=2s&tick=200ms").works().want("majority", store.Warn, "one server").
		want("tick", store.OK, "200ms").want("nodes", store.OK, "")
	r := examine(t, "zk://"+zookeeper.Addr()+"?ttl=2s&tick=100ms")
	found := false
	for _, f := range r.Findings {
		found = found || f.Check == "tick" && f.Level > store.OK
	}
	if !found {
		t.Errorf("no warning about the tick in\n%s", r)
	}
	consul := servers.Consul(t, servers.Volatile())
	examine(t, "consul://"+consul.Addr()).works().want("majority", store.Warn, "one server").
		want("session ttl", store.OK, "session_ttl_min").want("keys", store.OK, "")
}

// TestSQLite has folders that are not there, or that this user cannot use.
func TestSQLite(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	examine(t, "sqlite:"+filepath.Join(folder, "locks.db")).works().want("persistence", store.OK, "wal").
		want("file system", store.OK, "").want("disk", store.OK, "")
	examine(t, "sqlite:"+filepath.Join(folder, "not-there", "locks.db")).want("open", store.Fail, "folder is not there")
	testkit.Must(t, os.WriteFile(filepath.Join(folder, "text"), []byte(strings.Repeat("no database\n", 100)), 0o600))
	examine(t, "sqlite:"+filepath.Join(folder, "text")).want("open", store.Fail, "not a SQLite database")
	open := filepath.Join(folder, "open")
	testkit.Must(t, os.Mkdir(open, 0o700))
	testkit.Must(t, os.Chmod(open, 0o777)) //nolint:gosec // that is what is wrong
	r := examine(t, "sqlite:"+filepath.Join(open, "locks.db")).want("open", store.Fail,
		"other users can write to its folder")
	if fix := r.Findings[len(r.Findings)-1].Fix; !strings.Contains(fix, "shared=yes") {
		t.Errorf("the fix is %q", fix)
	}
	if os.Geteuid() == 0 {
		return // for whom permissions count for nothing
	}
	closed := filepath.Join(folder, "closed")
	testkit.Must(t, os.Mkdir(closed, 0o500))
	examine(t, "sqlite:"+filepath.Join(closed, "locks.db")).want("open", store.Fail, "permission")
}

// TestGone examines stores that are not there, and locations that are rejected: of these nothing is shown.
func TestGone(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://127.0.0.1:1", "postgres://127.0.0.1:1/x", "mysql://127.0.0.1:1/x", "etcd://127.0.0.1:1",
		"consul://127.0.0.1:1", "zk://127.0.0.1:1", "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3",
	} {
		examine(t, url).want("reachable", store.Fail, "refused").want("open", store.Fail, "")
	}
	for _, url := range []string{"nosuch://h", "redis://h/" + secret, "etcd://h?" + secret + "=1"} {
		at, err := store.ParseLocation(url)
		testkit.Must(t, err)
		report, err := doctor.Run(t.Context(), at, nil)
		if err == nil || len(report.Findings) > 0 || report.Store != "" || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v, %+v", url, err, report)
		}
	}
}

// TestDeadlock: two owners wait for each other, and have turned the search off that would tell one of them.
func TestDeadlock(t *testing.T) {
	t.Parallel()
	url := "memory:doctor-deadlock"
	c, err := holdfast.Open(t.Context(), url, holdfast.WithoutDeadlockCheck())
	testkit.Must(t, err)
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	emoji := strings.Repeat("🔒", store.MaxName/4)
	first, err := c.Mutex("a").Lock(ctx)
	testkit.Must(t, err)
	second, err := c.Mutex(emoji).Lock(ctx)
	testkit.Must(t, err)
	examine(t, url).want("deadlocks", store.OK, "no owners").want("queues", store.OK, "2 names in use")
	ended := make(chan struct{}, 2)
	for _, want := range []struct {
		holds *holdfast.Lease
		name  string
	}{{first, emoji}, {second, "a"}} {
		go func() {
			under, stop := context.WithCancel(want.holds.Context())
			defer stop()
			defer context.AfterFunc(ctx, stop)()
			c.Mutex(want.name).Lock(under) //nolint:errcheck // it waits until it is cancelled
			ended <- struct{}{}
		}()
	}
	defer func() { cancel(); <-ended; <-ended }()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		q, err := c.Inspect(t.Context(), "a")
		other, err2 := c.Inspect(t.Context(), emoji)
		if err == nil && err2 == nil && len(q.Waiters())+len(other.Waiters()) == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("they do not wait")
		}
	}
	examine(t, url).want("deadlocks", store.Warn, "1 deadlocks: ").want("leftovers", store.OK, "")
}

package servers

import (
	"context"
	"crypto/sha1"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// A MariaDBServer is a MariaDB server that runs for one test, alone, as a primary or as its replica.
type MariaDBServer struct {
	*Server
	set      *settings
	id       uint32         // in the binary logs; a new one after it has lost its data, or it would skip its own events
	primary  *MariaDBServer // nil: it is not a replica
	replicas []*MariaDBServer
	semiSync bool // the primary waits for a replica
}

// MariaDB starts a MariaDB server. Its user root has all privileges, and no password unless [Password] is given. What
// the server has acknowledged is still there after Kill and Start, but it does not wait for the disk: with
// Args("--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1") it does. It writes a binary log for replicas.
func MariaDB(t testing.TB, options ...Option) *MariaDBServer {
	t.Helper()
	m := newMariaDB(t, settingsOf(options), nil)
	must(t, m.firstStart())
	return m
}

// newMariaDB returns a server that is not started yet, a replica if primary is not nil.
func newMariaDB(t testing.TB, set *settings, primary *MariaDBServer) *MariaDBServer {
	t.Helper()
	owner, err := unprivileged()
	must(t, err)
	m := &MariaDBServer{set: set, primary: primary}
	m.Server = newServer(t, kind{
		program:   "mariadbd",
		portCount: 1,
		env:       set.env,
		args:      func() []string { return slices.Concat(m.baseArgs(), set.args) },
		ready:     m.checkReady,
		owner:     owner,
		fill:      m.initialize,
	})
	must(t, m.writeFiles())
	return m
}

// smallLog keeps the data folder small.
const smallLog = "--innodb-log-file-size=8M"

// initialize creates the data of a fresh server.
func (m *MariaDBServer) initialize() error {
	program, err := exec.LookPath("mariadb-install-db")
	if err != nil {
		return err
	}
	m.id = 1 + rand.Uint32N(math.MaxUint32)
	return m.fillFresh(program, "--datadir=", "--no-defaults", "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve", "--innodb-use-native-aio=0", smallLog)
}

// The user of replicas may read the binary log, and nothing else.
const (
	replicaName = "holdfast-replica"
	replicaUser = "'" + replicaName + "'@'127.0.0.1'"
)

// writeFiles writes the certificates, and the statements that the server runs before it accepts connections. They are
// not replicated.
func (m *MariaDBServer) writeFiles() error {
	statements := []string{
		"SET SESSION sql_log_bin = 0",
		"CREATE USER IF NOT EXISTS " + replicaUser,
		"GRANT REPLICATION SLAVE ON *.* TO " + replicaUser,
	}
	if m.set.password != "" {
		once := sha1.Sum([]byte(m.set.password)) // as the protocol has it
		twice := sha1.Sum(once[:])
		for _, host := range []string{"localhost", "127.0.0.1", "::1"} {
			statements = append(statements, fmt.Sprintf(
				"ALTER USER 'root'@'%s' IDENTIFIED VIA mysql_native_password USING '*%X'", host, twice))
		}
	}
	if c := m.set.certificates; c != nil {
		if err := m.copyCertificates(c); err != nil {
			return err
		}
	}
	return m.owner.write(m.initFile(), []byte(strings.Join(statements, ";\n")+";\n"))
}

func (m *MariaDBServer) initFile() string { return filepath.Join(m.dir, "init.sql") }

func (m *MariaDBServer) pidPath() string { return filepath.Join(m.dir, "pid") }

// baseArgs returns the arguments that every start of the server has.
func (m *MariaDBServer) baseArgs() []string {
	args := []string{
		"--no-defaults",
		"--datadir=" + m.dataDir(),
		"--tmpdir=" + m.dir,
		"--socket=" + m.Socket(),
		"--pid-file=" + m.pidPath(),
		"--init-file=" + m.initFile(),
		"--bind-address=127.0.0.1",
		"--port=" + strconv.Itoa(m.Port()),
		"--skip-name-resolve",
		"--max-connections=500",
		"--character-set-server=utf8mb4",
		"--default-time-zone=+00:00",
		smallLog,
		"--innodb-buffer-pool-size=16M",
		"--innodb-use-native-aio=0", // of which the kernel has a share for all servers together
		// The kernel keeps what was written by a process that is killed.
		"--innodb-flush-log-at-trx-commit=2",
		"--sync-binlog=0",
		"--server-id=" + strconv.FormatUint(uint64(m.id), 10),
		"--log-bin=binlog",
		"--log-slave-updates", // so that all is there for the replicas of one that was promoted
		"--rpl-semi-sync-slave-enabled=1",
		"--rpl-semi-sync-master-wait-point=AFTER_SYNC",
		"--rpl-semi-sync-master-timeout=3600000", // no test takes as long
		"--slave-net-timeout=5",
	}
	if m.semiSync {
		args = append(args, "--rpl-semi-sync-master-enabled=1")
	}
	if m.primary != nil {
		args = append(args, "--read-only=1")
	}
	if c := m.set.certificates; c != nil {
		args = append(args, "--ssl-ca="+m.ownFile(c.CAFile), "--ssl-cert="+m.ownFile(c.CertFile),
			"--ssl-key="+m.ownFile(c.KeyFile), "--require-secure-transport=1")
	}
	return args
}

// Socket is the path of its Unix socket. It is open beside the port.
func (m *MariaDBServer) Socket() string { return filepath.Join(m.dir, "socket") }

// URL is the address of a database for a client, as mysql://user:password@127.0.0.1:port/database.
func (m *MariaDBServer) URL(user, password, database string) string {
	u := url.URL{Scheme: "mysql", User: userinfo(user, password), Host: m.Addr(), Path: "/" + database}
	return u.String()
}

// DB makes a client that is logged in as root, with no database chosen. It is closed with the test.
func (m *MariaDBServer) DB(t testing.TB) *sql.DB {
	t.Helper()
	db, err := m.open()
	must(t, err)
	return closedWith(t, db)
}

// open returns a connection pool for the user root.
func (m *MariaDBServer) open() (*sql.DB, error) {
	config := mysql.NewConfig()
	config.User, config.Passwd = "root", m.set.password
	config.Net, config.Addr = "tcp", m.Addr()
	config.Logger = &mysql.NopLogger{} // errors are returned too
	if c := m.set.certificates; c != nil {
		config.TLS = c.Client
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// checkReady checks that the process that was started responds: no other has its pid file in this folder.
func (m *MariaDBServer) checkReady() error {
	_, values, err := m.row(readyPatience, "SELECT @@pid_file")
	if err == nil && (len(values) != 1 || values[0] != m.pidPath()) {
		err = fmt.Errorf("another server responds on %s", m.Addr())
	}
	return err
}

// exec runs statements as root, each on its own.
func (m *MariaDBServer) exec(statements ...string) error {
	for _, statement := range statements {
		if _, err := m.ask(statement); err != nil {
			return err
		}
	}
	return nil
}

// ask runs a query as root and returns the last value of the first row, or "" if there is no row.
func (m *MariaDBServer) ask(query string, args ...any) (answer string, err error) {
	_, values, err := m.row(answerPatience, query, args...)
	if err != nil || len(values) == 0 {
		return "", err
	}
	return values[len(values)-1], nil
}

// row runs a query as root, over a connection of its own, and returns its columns and the first row as text.
func (m *MariaDBServer) row(patience time.Duration, query string, args ...any) (columns, values []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	db, err := m.open()
	if err != nil {
		return nil, nil, err
	}
	defer db.Close() //nolint:errcheck // the response was read
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	if !rows.Next() {
		return nil, nil, rows.Err()
	}
	if columns, err = rows.Columns(); err != nil {
		return nil, nil, err
	}
	texts, targets := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range texts {
		targets[i] = &texts[i]
	}
	err = rows.Scan(targets...)
	for _, text := range texts {
		values = append(values, text.String)
	}
	return columns, values, errors.Join(err, rows.Err())
}

package servers

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// superuser is the user of PostgreSQL that may do everything.
const superuser = "postgres"

// A PostgresServer is a PostgreSQL server that runs for one test, alone, as a primary or as its standby.
type PostgresServer struct {
	*Server
	set     *settings
	primary *PostgresServer // nil: it is none's standby, and never was
}

// Postgres starts a PostgreSQL server with a superuser postgres and a database of that name. It lets everybody in, or
// demands the [Password], which is then the superuser's. What it has acknowledged is still there after Kill and Start,
// but it does not wait for the disk: Args("-c", "fsync=on") does.
//
// If the tests run as root, it runs as the user nobody, since PostgreSQL refuses root.
func Postgres(t testing.TB, options ...Option) *PostgresServer {
	t.Helper()
	p := newPostgres(t, settingsOf(options), (*PostgresServer).initialize)
	must(t, p.firstStart())
	return p
}

// newPostgres makes a server whose data comes from fill.
func newPostgres(t testing.TB, set *settings, fill func(*PostgresServer) error) *PostgresServer {
	t.Helper()
	owner, err := unprivileged()
	must(t, err)
	p := &PostgresServer{set: set}
	p.Server = newServer(t, kind{
		program:   "postgres",
		portCount: 1,
		env:       set.env,
		args:      func() []string { return slices.Concat(p.baseArgs(), set.args) },
		ready:     p.checkReady,
		owner:     owner,
		fill:      func() error { return fill(p) },
		stop:      syscall.SIGINT, // on SIGTERM it would wait for its clients
		forks:     true,
		killed:    p.clearUp,
	})
	must(t, p.writeFiles())
	return p
}

// initialize makes the data of a fresh server.
func (p *PostgresServer) initialize() error {
	args := []string{
		"--username", superuser, "--auth", "trust", "--encoding", "UTF8", "--locale", "C",
		"--wal-segsize", "1", // megabytes: less to copy
		"--no-sync",
	}
	initdb := p.tool("initdb")
	if p.set.password == "" {
		return p.fillFresh(initdb, "--pgdata=", args...)
	}
	file := filepath.Join(p.dir, "password")
	if err := p.owner.write(file, []byte(p.set.password)); err != nil {
		return err
	}
	return p.run(initdb, append(args, "--pwfile", file, "--pgdata="+p.dataDir())...)
}

// tool is the path of a program that comes with the server.
func (p *PostgresServer) tool(name string) string { return filepath.Join(filepath.Dir(p.path), name) }

// writeFiles writes who may connect, and the certificates. Whoever reaches the socket is let in: the folder is the
// server's own.
func (p *PostgresServer) writeFiles() error {
	connection, method := "host", "trust"
	if p.set.password != "" {
		method = "scram-sha-256"
	}
	if c := p.set.certificates; c != nil {
		connection = "hostssl"
		if err := p.copyCertificates(c); err != nil {
			return err
		}
	}
	hba := fmt.Sprintf("local all,replication all trust\n%s all,replication all 127.0.0.1/32 %s\n", connection, method)
	return p.owner.write(filepath.Join(p.dir, "pg_hba.conf"), []byte(hba))
}

// baseArgs returns the arguments that every start of the server has.
func (p *PostgresServer) baseArgs() []string {
	args := []string{"-D", p.dataDir(), "-h", "127.0.0.1", "-p", strconv.Itoa(p.Port()), "-k", p.dir}
	set := func(name, value string) { args = append(args, "-c", name+"="+value) }
	set("hba_file", filepath.Join(p.dir, "pg_hba.conf"))
	set("fsync", "off") // the kernel keeps what was written by a process that is killed
	set("max_connections", "200")
	set("shared_buffers", "16MB")
	set("max_wal_size", "64MB")
	set("wal_keep_size", "64MB") // for a standby that was away
	set("wal_sender_timeout", "5s")
	set("wal_retrieve_retry_interval", "100ms")
	set("dynamic_shared_memory_type", "mmap") // in its folder, and so removed with it
	set("timezone", "UTC")
	if c := p.set.certificates; c != nil {
		set("ssl", "on")
		set("ssl_ca_file", p.ownFile(c.CAFile))
		set("ssl_cert_file", p.ownFile(c.CertFile))
		set("ssl_key_file", p.ownFile(c.KeyFile))
	}
	return args
}

// Socket is the folder of its Unix socket. It is open beside the port to this user, never speaks TLS, and demands no
// password.
func (p *PostgresServer) Socket() string { return p.dir }

// URL is the address of a database for a client. It says how to speak TLS, if there is [TLS], and otherwise not to.
func (p *PostgresServer) URL(user, password, database string) string {
	u := url.URL{Scheme: "postgres", User: userinfo(user, password), Host: p.Addr(), Path: "/" + database}
	query := url.Values{"sslmode": {"disable"}}
	if c := p.set.certificates; c != nil {
		query = url.Values{"sslmode": {"verify-full"}, "sslrootcert": {c.CAFile}}
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// DB makes a client that is logged in as the superuser. It is closed with the test.
func (p *PostgresServer) DB(t testing.TB) *sql.DB {
	t.Helper()
	config, err := pgx.ParseConfig(p.URL(superuser, p.set.password, superuser))
	must(t, err)
	return closedWith(t, stdlib.OpenDB(*config))
}

// checkReady demands that the process that was started serves clients: the file in its folder names the process, once
// the port is its own.
func (p *PostgresServer) checkReady() error {
	if pid := p.pidFile(pidLine); pid != strconv.Itoa(p.proc.Cmd.Process.Pid) {
		return fmt.Errorf("its process is %q", pid)
	}
	if status := p.pidFile(statusLine); status != "ready" {
		return fmt.Errorf("its status is %q", status)
	}
	return p.exec("SELECT 1")
}

// exec runs statements as the superuser, each on its own.
func (p *PostgresServer) exec(statements ...string) error {
	for _, statement := range statements {
		if _, err := p.ask(statement); err != nil {
			return err
		}
	}
	return nil
}

// ask runs a query as the superuser, over a connection of its own, and returns the first value that it yields as
// text, or nothing if there is none.
func (p *PostgresServer) ask(query string) (string, error) {
	rows, err := rowsOf(answerPatience, p.URL(superuser, p.set.password, superuser), query)
	if err != nil || len(rows) == 0 {
		return "", err
	}
	return rows[0][0], nil
}

// await repeats a query as the superuser until it yields this value. Otherwise it returns what is wrong.
func (p *PostgresServer) await(query, want string, otherwise func(answer string) error) error {
	return poll(func(context.Context) error {
		answer, err := p.ask(query)
		if err == nil && answer != want {
			err = otherwise(answer)
		}
		return err
	})
}

// rowsOf runs a query over a connection of its own, and returns the rows as text.
func rowsOf(patience time.Duration, url, query string) (rows [][]string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgconn.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx) //nolint:errcheck // the response was read
	results, err := conn.Exec(ctx, query).ReadAll()
	if err != nil {
		return nil, err
	}
	for _, result := range results {
		for _, values := range result.Rows {
			row := make([]string, len(values))
			for i, value := range values {
				row[i] = string(value)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// Lines of the file that names the process of a running server.
const (
	pidLine          = 0
	sharedMemoryLine = 6 // a key, and the id of a segment
	statusLine       = 7
)

func (p *PostgresServer) pidPath() string { return filepath.Join(p.dataDir(), "postmaster.pid") }

// pidFile is a line of the file that names the process, or nothing.
func (p *PostgresServer) pidFile(line int) string {
	content, err := os.ReadFile(p.pidPath())
	if err != nil {
		return ""
	}
	lines := strings.Split(string(content), "\n")
	if line >= len(lines) {
		return ""
	}
	return strings.TrimSpace(lines[line])
}

// clearUp removes what a killed server leaves behind: a segment of shared memory, of which the system has few, and the
// file that names its process, whose id may be another's when it is started again.
func (p *PostgresServer) clearUp() error {
	if _, segment, ok := strings.Cut(p.pidFile(sharedMemoryLine), " "); ok {
		id, err := strconv.Atoi(strings.TrimSpace(segment))
		if err != nil {
			return err
		}
		if err := removeSharedMemory(id); err != nil {
			return err
		}
	}
	return os.RemoveAll(p.pidPath())
}

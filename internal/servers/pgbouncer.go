package servers

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A PgBouncerServer is a PgBouncer that runs for one test: it shares few connections to a PostgreSQL server among many
// clients.
type PgBouncerServer struct {
	*Server
	postgres *PostgresServer
	set      *settings
}

// PgBouncer starts a PgBouncer for all databases of a PostgreSQL server. It lends a connection for one transaction. It
// demands no password, and reaches the server over its socket, where none is needed either.
//
// It has hardly any arguments. Args are lines of its section pgbouncer instead, such as "default_pool_size = 2".
func PgBouncer(t testing.TB, postgres *PostgresServer, options ...Option) *PgBouncerServer {
	t.Helper()
	b := newPgBouncer(t, postgres, settingsOf(options))
	must(t, b.firstStart())
	return b
}

// newPgBouncer returns a pooler in front of a PostgreSQL server. It is not started yet.
func newPgBouncer(t testing.TB, postgres *PostgresServer, set *settings) *PgBouncerServer {
	t.Helper()
	b := &PgBouncerServer{postgres: postgres, set: set}
	b.Server = newServer(t, kind{
		program:   "pgbouncer",
		portCount: 1,
		env:       set.env,
		args:      func() []string { return []string{b.configFile()} },
		ready:     b.checkReady,
		owner:     postgres.owner,
		stop:      syscall.SIGQUIT, // other signals make it wait for its clients, in some versions
	})
	must(t, b.owner.write(b.usersFile(), fmt.Appendf(nil, "%q \"\"\n", superuser)))
	return b
}

// firstStart starts it on a free port, which goes into its config.
func (b *PgBouncerServer) firstStart() error {
	return b.start(maxClashes, func() error {
		if err := b.choosePorts(); err != nil {
			return err
		}
		return b.writeConfig()
	})
}

func (b *PgBouncerServer) configFile() string { return filepath.Join(b.dir, "pgbouncer.ini") }

func (b *PgBouncerServer) usersFile() string { return filepath.Join(b.dir, "users.txt") }

// writeConfig writes the configuration file.
func (b *PgBouncerServer) writeConfig() error {
	lines := []string{
		"[databases]",
		fmt.Sprintf("* = host=%s port=%d", b.postgres.Socket(), b.postgres.Port()),
		"[pgbouncer]",
		"listen_addr = 127.0.0.1",
		fmt.Sprintf("listen_port = %d", b.Port()),
		"unix_socket_dir =", // none: it would go on with that alone if the port is in use
		"auth_type = trust",
		"auth_file = " + b.usersFile(),
		"admin_users = " + superuser,
		"pool_mode = transaction",
		"max_client_conn = 500",
		"server_login_retry = 0.1", // seconds; a server that is back is back at once
	}
	return b.owner.write(b.configFile(), []byte(strings.Join(slices.Concat(lines, b.set.args), "\n")+"\n"))
}

// URL is the address of a database for a client who is the superuser of the PostgreSQL server.
func (b *PgBouncerServer) URL(database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", superuser, b.Addr(), database)
}

// checkReady demands that the process that was started answers: no other has its users in this folder. The
// PostgreSQL server need not run.
func (b *PgBouncerServer) checkReady() error {
	config, err := rowsOf(readyPatience, b.URL("pgbouncer"), "SHOW CONFIG")
	if err != nil {
		return err
	}
	for _, row := range config {
		if row[0] == "auth_file" && row[1] == b.usersFile() {
			return nil
		}
	}
	return fmt.Errorf("another server answers on %s", b.Addr())
}

package servers

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A RedisServer is a server of Redis, or of [Valkey], that runs for one test: alone, as a node among others, or as a
// sentinel.
type RedisServer struct {
	*Server
	set *settings
}

// Redis starts a Redis server. It keeps its data in an append-only file, so that what it has acknowledged is still
// there after Kill and Start.
func Redis(t testing.TB, options ...Option) *RedisServer {
	t.Helper()
	r := newRedis(t, settingsOf(options))
	must(t, r.firstStart())
	return r
}

// newRedis returns a server that is not started yet.
func newRedis(t testing.TB, set *settings) *RedisServer {
	t.Helper()
	return newRedisKind(t, set, 1, (*RedisServer).storeArgs)
}

// newRedisKind makes a server that has so many ports and these arguments, before those of the settings.
func newRedisKind(t testing.TB, set *settings, portCount int, args func(*RedisServer) []string) *RedisServer {
	t.Helper()
	r := &RedisServer{set: set}
	r.Server = newServer(t, kind{
		program:   cmp.Or(set.program, "redis-server"),
		portCount: portCount,
		env:       set.env,
		args:      func() []string { return slices.Concat(args(r), set.args) },
		ready:     r.checkReady,
	})
	must(t, r.writeFiles())
	return r
}

// writeFiles writes its config file, which is empty until the server writes down there whom it follows, and its users,
// of whom one more than the test asked for is this package.
func (r *RedisServer) writeFiles() error {
	if err := os.WriteFile(r.configFile(), nil, 0o600); err != nil || r.set.acl == nil {
		return err
	}
	mine := fmt.Sprintf("user %s on >%s ~* &* +@all", r.set.user, r.set.password)
	lines := slices.Concat(r.set.acl, []string{mine})
	return os.WriteFile(r.aclFile(), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

func (r *RedisServer) configFile() string { return filepath.Join(r.dir, "redis.conf") }

func (r *RedisServer) aclFile() string { return filepath.Join(r.dir, "users.acl") }

// storeArgs are for a server that keeps data.
func (r *RedisServer) storeArgs() []string {
	args := append(r.baseArgs(),
		"--save", "",
		"--appendonly", "yes",
		"--appendfsync", "no", // the kernel keeps what was written by a process that is killed
		"--repl-diskless-sync-delay", "0", // a replica need not wait for others to come
	)
	if r.set.password != "" {
		args = append(args, "--masterauth", r.set.password)
	}
	if r.set.user != "" {
		args = append(args, "--masteruser", r.set.user)
	}
	return args
}

// baseArgs are for a server of any kind: where it listens, and whom it listens to.
func (r *RedisServer) baseArgs() []string {
	args := []string{
		r.configFile(),
		"--bind", "127.0.0.1",
		"--unixsocket", r.Socket(),
		"--dir", r.dataDir(),
	}
	switch {
	case r.set.acl != nil:
		args = append(args, "--aclfile", r.aclFile())
	case r.set.password != "":
		args = append(args, "--requirepass", r.set.password)
	}
	port := strconv.Itoa(r.Port())
	c := r.set.certificates
	if c == nil {
		return append(args, "--port", port)
	}
	return append(args, "--port", "0", "--tls-port", port,
		"--tls-ca-cert-file", c.CAFile,
		"--tls-cert-file", c.CertFile,
		"--tls-key-file", c.KeyFile,
		"--tls-auth-clients", "optional",
		"--tls-replication", "yes")
}

// Socket is the path of its Unix socket. It is open beside the port, and never speaks TLS.
func (r *RedisServer) Socket() string { return filepath.Join(r.dir, "socket") }

// Dial connects to the server and logs in.
func (r *RedisServer) Dial() (*Conn, error) { return r.dial(answerPatience) }

// dial connects to the server within patience.
func (r *RedisServer) dial(patience time.Duration) (*Conn, error) {
	conn, err := net.DialTimeout("tcp", r.Addr(), patience)
	if err != nil {
		return nil, err
	}
	if c := r.set.certificates; c != nil {
		conn = tls.Client(conn, c.Client)
	}
	c := NewConn(conn, patience)
	if r.set.password == "" {
		return c, nil
	}
	auth := []string{"AUTH", r.set.user, r.set.password}
	if r.set.user == "" {
		auth = []string{"AUTH", r.set.password}
	}
	if _, err := c.Do(auth...); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Do sends one command over a connection of its own.
func (r *RedisServer) Do(args ...string) (any, error) { return r.do(answerPatience, args...) }

// ask is Do for a server that may be paused.
func (r *RedisServer) ask(args ...string) (any, error) { return r.do(askPatience, args...) }

// do sends a command over a new connection, and returns its reply.
func (r *RedisServer) do(patience time.Duration, args ...string) (any, error) {
	c, err := r.dial(patience)
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:errcheck // the response was read
	return c.Do(args...)
}

// doAll sends commands, each over a connection of its own, until one fails. Its error begins with their first words:
// the rest may have a password.
func (r *RedisServer) doAll(commands ...[]string) error {
	for _, command := range commands {
		if _, err := r.Do(command...); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(command[:2], " "), err)
		}
	}
	return nil
}

// Info is a section of what the server says about itself, such as "server" or "everything".
func (r *RedisServer) Info(section string) (map[string]string, error) {
	answer, err := r.Do("INFO", section)
	return parseFields(fmt.Sprint(answer), ":"), err
}

// checkReady requires that the server responds, has loaded its data, and is the process that was started.
func (r *RedisServer) checkReady() error {
	if _, err := r.Do("PING"); err != nil {
		return err
	}
	info, err := r.Info("server")
	if err == nil && info["process_id"] != strconv.Itoa(r.proc.Cmd.Process.Pid) {
		err = fmt.Errorf("another process responds on %s", r.Addr())
	}
	return err
}

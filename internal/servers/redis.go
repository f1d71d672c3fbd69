package servers

import (
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A RedisServer is a Redis server that runs for one test.
type RedisServer struct {
	*Server
	user, password string // as whom this package logs in
	certificates   *Certificates
}

// Redis starts a Redis server. It keeps its data in an append-only file, so that what it has acknowledged is still
// there after Kill and Start.
func Redis(t testing.TB, options ...Option) *RedisServer {
	t.Helper()
	r := newRedis(t, options...)
	if err := r.firstStart(); err != nil {
		t.Fatal(err)
	}
	return r
}

func newRedis(t testing.TB, options ...Option) *RedisServer {
	t.Helper()
	set := settingsOf(options)
	r := &RedisServer{password: set.password, certificates: set.certificates}
	r.Server = newServer(t, kind{
		program:   "redis-server",
		portCount: 1,
		env:       set.env,
		args:      func() []string { return append(r.baseArgs(), set.args...) },
		ready:     r.checkReady,
	})
	if set.password != "" {
		set.args = append([]string{"--requirepass", set.password}, set.args...)
	}
	if set.acl != nil {
		file, err := r.writeACL(set.acl)
		if err != nil {
			t.Fatal(err)
		}
		set.args = append([]string{"--aclfile", file}, set.args...)
	}
	return r
}

func (r *RedisServer) baseArgs() []string {
	port := strconv.Itoa(r.Port())
	args := []string{
		"--bind", "127.0.0.1",
		"--unixsocket", r.Socket(),
		"--dir", r.dataDir(),
		"--save", "",
		"--appendonly", "yes",
		"--repl-diskless-sync-delay", "0", // a replica need not wait for others to come
	}
	if r.certificates == nil {
		return append(args, "--port", port)
	}
	return append(args, "--port", "0", "--tls-port", port,
		"--tls-ca-cert-file", r.certificates.CAFile,
		"--tls-cert-file", r.certificates.CertFile,
		"--tls-key-file", r.certificates.KeyFile,
		"--tls-auth-clients", "optional",
		"--tls-replication", "yes")
}

// writeACL writes the ACL file, with one user more, as whom this package logs in.
func (r *RedisServer) writeACL(lines []string) (file string, err error) {
	r.user, r.password = "holdfast-servers", rand.Text()
	mine := fmt.Sprintf("user %s on >%s ~* &* +@all", r.user, r.password)
	file = filepath.Join(r.dir, "users.acl")
	return file, os.WriteFile(file, []byte(strings.Join(append(lines, mine), "\n")+"\n"), 0o600)
}

// Socket is the path of its Unix socket. It is open beside the port, and never speaks TLS.
func (r *RedisServer) Socket() string { return filepath.Join(r.dir, "socket") }

// Dial connects to the server and logs in.
func (r *RedisServer) Dial() (*Conn, error) {
	conn, err := net.DialTimeout("tcp", r.Addr(), answerPatience)
	if err != nil {
		return nil, err
	}
	if r.certificates != nil {
		conn = tls.Client(conn, r.certificates.Client)
	}
	c := NewConn(conn, answerPatience)
	if r.password == "" {
		return c, nil
	}
	auth := []string{"AUTH", r.user, r.password}
	if r.user == "" {
		auth = []string{"AUTH", r.password}
	}
	if _, err := c.Do(auth...); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Do sends one command over a connection of its own.
func (r *RedisServer) Do(args ...string) (any, error) {
	c, err := r.Dial()
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:errcheck // the answer is there
	return c.Do(args...)
}

// checkReady demands that the server answers, has loaded its data, and is the process that was started.
func (r *RedisServer) checkReady() error {
	c, err := r.Dial()
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // the answer is there
	if _, err := c.Do("PING"); err != nil {
		return err
	}
	info, err := c.Do("INFO", "server")
	if err != nil {
		return err
	}
	mine := fmt.Sprintf("process_id:%d\r\n", r.proc.cmd.Process.Pid)
	if text, _ := info.(string); !strings.Contains(text, "\r\n"+mine) {
		return fmt.Errorf("somebody else answers on %s", r.Addr())
	}
	return nil
}

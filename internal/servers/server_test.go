package servers

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/child"
)

func TestPortsAreOurs(t *testing.T) {
	seen := map[int]bool{}
	for range 400 { // enough to draw some port twice
		ports, err := pickPorts(3)
		must(t, err)
		t.Cleanup(func() { freePorts(ports) })
		for _, port := range ports {
			if port < firstPort || port >= endOfPorts || seen[port] {
				t.Errorf("port %d was picked twice, or is out of range", port)
			}
			seen[port] = true
		}
	}
}

func TestPortInUse(t *testing.T) {
	ports, err := pickPorts(1) // nobody else takes it
	check(t, err)
	defer freePorts(ports)
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])))
	check(t, err)
	if isFree(ports[0]) {
		t.Error("a port that somebody listens on counts as free")
	}
	check(t, l.Close())
	if !isFree(ports[0]) {
		t.Error("a port that nobody listens on counts as in use")
	}
}

// Another test binary must not take a port of ours, also while it looks free.
func TestPortIsReserved(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux reserves ports")
	}
	ports, err := pickPorts(1)
	check(t, err)
	defer freePorts(ports)
	if stranger, err := reserve(ports[0]); err == nil {
		stranger.Close()
		t.Error("another test binary could take a port of ours")
	}
	freePorts(ports)
	stranger, err := reserve(ports[0])
	check(t, err)
	taken.Lock()
	defer taken.Unlock()
	if take(ports[0]) {
		t.Error("a port was taken that another test binary has")
	}
	check(t, stranger.Close())
	if !take(ports[0]) {
		t.Error("a port was not taken that the other test binary had given back")
	}
}

// The probe said that the port was free, and a moment later another Redis has it.
func TestStartAgainAfterClash(t *testing.T) {
	stranger := Redis(t)
	for _, test := range []struct {
		name string
		make func(t *testing.T) (s *Server, firstStart func() error)
	}{
		{"redis", func(t *testing.T) (*Server, func() error) {
			r := newRedis(t, settingsOf(nil))
			return r.Server, r.firstStart
		}},
		{"port of a cluster", func(t *testing.T) (*Server, func() error) {
			r := newClusterNode(t, settingsOf(nil))
			return r.Server, r.firstStart
		}},
		{"sentinel", func(t *testing.T) (*Server, func() error) {
			r := newSentinel(t, settingsOf(nil))
			return r.Server, r.firstStart
		}},
		{"postgres", func(t *testing.T) (*Server, func() error) {
			p := newPostgres(t, settingsOf(nil), (*PostgresServer).initialize)
			return p.Server, p.firstStart
		}},
		{"pgbouncer", func(t *testing.T) (*Server, func() error) {
			b := newPgBouncer(t, Postgres(t), settingsOf(nil))
			return b.Server, b.firstStart
		}},
		{"mariadb", func(t *testing.T) (*Server, func() error) {
			m := newMariaDB(t, settingsOf(nil), nil)
			return m.Server, m.firstStart
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, firstStart := test.make(t)
			picks := 0
			s.pick = func(n int) ([]int, error) {
				ports, err := pickPorts(n)
				if picks++; picks == 1 {
					freePorts(ports[n-1:])
					ports[n-1] = stranger.Port() // of a cluster the port for the other nodes
				}
				return ports, err
			}
			check(t, firstStart())
			if picks != 2 || slices.Contains(s.ports, stranger.Port()) {
				t.Errorf("it runs on %v after %d picks, and the stranger on %d", s.ports, picks, stranger.Port())
			}
		})
	}
}

// A server that is started again has no other port to go to. It waits for a stranger who probes its port.
func TestStartAgainOnTheSamePort(t *testing.T) {
	r := Redis(t)
	check(t, r.Stop())
	stranger, err := net.Listen("tcp", r.Addr())
	check(t, err)
	started := make(chan error, 1)
	go func() { started <- r.Start() }()
	await(t, "a clash in the log", func() bool { return strings.Contains(r.logTail(0), "in use") })
	stranger.Close()
	check(t, <-started)
}

func TestWrongArgument(t *testing.T) {
	Need(t, "redis-server")
	t.Setenv("TMPDIR", t.TempDir()) // for what is kept
	began := time.Now()
	f := asTest(t, func(t testing.TB) { Redis(t, Args("--no-such-thing", "1")) })
	if !f.failed || !strings.Contains(f.said, "no-such-thing") {
		t.Errorf("it does not say what is wrong: %s", f.said)
	}
	if took := time.Since(began); took > startPatience/2 {
		t.Errorf("it took %v to notice that the server had ended", took)
	}
}

func TestFolder(t *testing.T) {
	Need(t, "redis-server")
	var dir string
	f := asTest(t, func(t testing.TB) { dir = Redis(t).Dir() })
	if _, err := os.Stat(dir); f.failed || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of a test that passed: %v; %s", err, f.said)
	}
	f = asTest(t, func(t testing.TB) {
		dir = Redis(t).Dir()
		t.Errorf("this test fails")
	})
	defer os.RemoveAll(dir)
	if log, err := os.ReadFile(dir + "/log"); err != nil || len(log) == 0 {
		t.Errorf("the log of a test that failed has %d bytes: %v", len(log), err)
	}
	if !strings.Contains(f.said, dir) || !strings.Contains(f.said, "Ready to accept connections") {
		t.Errorf("the test that failed does not show its log: %s", f.said)
	}
}

func TestServerEndsWithTheTest(t *testing.T) {
	Need(t, "redis-server")
	for _, test := range []struct {
		name   string
		before func(*RedisServer) error
	}{
		{"running", func(*RedisServer) error { return nil }},
		{"paused", func(r *RedisServer) error { return r.Pause() }},
		{"stopped", func(r *RedisServer) error { return r.Stop() }},
	} {
		var addr string
		f := asTest(t, func(t testing.TB) {
			r := Redis(t)
			addr = r.Addr()
			must(t, test.before(r))
		})
		if f.failed {
			t.Errorf("%s: %s", test.name, f.said)
		}
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			t.Errorf("%s: the server outlived its test", test.name)
		}
	}
}

func TestServerEndsWithTheTestBinary(t *testing.T) {
	for program := range orphans {
		t.Run(program, func(t *testing.T) { endsWithTheTestBinary(t, program) })
	}
}

func endsWithTheTestBinary(t *testing.T, program string) {
	t.Helper()
	Need(t, program)
	if !child.EndsWithParent {
		t.Skip("only Linux ends a child with its parent")
	}
	child := exec.Command(os.Args[0], "-test.run=^TestOrphan$")
	temp := sharedTempDir(t)
	child.Env = append(os.Environ(), orphanEnv+"="+program, "TMPDIR="+temp)
	child.Stderr = os.Stderr
	pipe, err := child.StdoutPipe()
	check(t, err)
	check(t, child.Start())
	defer child.Wait()
	defer child.Process.Kill()
	var addr string
	for says := bufio.NewScanner(pipe); says.Scan(); {
		if addr = says.Text(); strings.HasPrefix(addr, "127.0.0.1:") {
			break
		}
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatalf("the child's server: %v", err)
	}
	defer conn.Close()
	check(t, child.Process.Kill())
	await(t, "the end of the server", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	if dirs, _ := filepath.Glob(temp + "/holdfast-postgres-*"); len(dirs) == 1 {
		check(t, (&PostgresServer{Server: &Server{dir: dirs[0]}}).clearUp())
	}
	await(t, "end of its children", func() bool { return os.RemoveAll(temp) == nil })
}

// await polls until something is so.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(startPatience); !so(); time.Sleep(pollEvery) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s after %v", what, startPatience)
		}
	}
}

// check takes an error as the end of the test.
func check(t *testing.T, err error) {
	t.Helper()
	must(t, err)
}

// pickTaken picks free ports but for one, which a stranger has: first its first, then its second. When all had their
// turn, it picks free ones. It counts the picks.
func pickTaken(stranger *Server, picks *int) func(n int) ([]int, error) {
	return func(n int) ([]int, error) {
		*picks++
		i := *picks - 1
		ports, err := pickPorts(n)
		if i < n && err == nil {
			freePorts(ports[i : i+1])
			ports[i] = stranger.ports[i]
		}
		return ports, err
	}
}

// testRestart demands that a server that was stopped or killed starts again where it was, with its data or without.
func testRestart(t *testing.T, s *Server, set func(value string), get func() string) {
	t.Helper()
	pid, addr := s.Pid(), s.Addr()
	is := func(step, want string) {
		t.Helper()
		if got := get(); got != want {
			t.Errorf("%s: the key is %s, want %s", step, got, want)
		}
		if s.Pid() == pid || s.Addr() != addr {
			t.Errorf("%s: process %d on %s, before it was %d on %s", step, s.Pid(), s.Addr(), pid, addr)
		}
		pid = s.Pid()
	}
	set("1")
	check(t, s.Restart(true))
	is("restart with data", "1")
	set("2")
	check(t, s.Kill())
	if conn, err := net.Dial("tcp", addr); err == nil || s.Pid() != 0 {
		t.Errorf("a server that was killed answers on %v, or has process %d", conn, s.Pid())
	}
	check(t, s.Start())
	is("start after kill -9", "2")
	check(t, s.Pause())
	check(t, s.Restart(false)) // Stop wakes it first
	is("restart without data", "<nil>")
}

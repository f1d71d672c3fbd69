package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
)

// A topTest is holdfast top at a terminal of its own.
type topTest struct {
	*testing.T
	cmd  *exec.Cmd
	keys *os.File

	mu     sync.Mutex
	screen *vt
	raw    strings.Builder

	drained chan struct{} // closed when the program has closed its terminal, and all that it wrote was read
}

// startTop starts holdfast top at a terminal.
func startTop(t *testing.T, url string, args ...string) *topTest {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &topTest{T: t, keys: keys, screen: newVT(120, 24), drained: make(chan struct{})}
	var number int
	s.control(func(fd int) error {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return err
	})
	s.resize(120, 24)
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	s.cmd = exec.Command(os.Args[0], append([]string{"top", "--store=" + url, "--interval=100ms"}, args...)...)
	s.cmd.Env = append(os.Environ(), "TERM=xterm-256color", "LC_ALL=C.UTF-8")
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = terminal, terminal, terminal
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.drained)
		s.read()
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // it may have ended
		_ = s.cmd.Wait()
		_ = keys.Close()
		<-s.drained
		if t.Failed() {
			t.Logf("the screen:\n%s", s.text())
		}
	})
	return s
}

// read reads what the program writes to its terminal, until the program has closed it.
func (s *topTest) read() {
	page := make([]byte, 4096)
	for {
		n, err := s.keys.Read(page)
		s.mu.Lock()
		s.screen.write(page[:n])
		s.raw.Write(page[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// control does something with the descriptor of the terminal. Fd would make reads block for ever.
func (s *topTest) control(do func(fd int) error) {
	s.Helper()
	raw, err := s.keys.SyscallConn()
	if err != nil {
		s.Fatal(err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil || failed != nil {
		s.Fatal(err, failed)
	}
}

// resize gives the terminal another size. The program is told.
func (s *topTest) resize(width, height int) {
	s.Helper()
	s.mu.Lock()
	s.screen.resize(width, height)
	s.mu.Unlock()
	s.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ,
			&unix.Winsize{Row: uint16(height), Col: uint16(width)}) //nolint:gosec // small
	})
}

func (s *topTest) types(keys string) {
	s.Helper()
	if _, err := s.keys.WriteString(keys); err != nil {
		s.Fatal(err)
	}
}

func (s *topTest) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.screen.String()
}

// shows waits until the screen has all of these, and in one line if they are given together.
func (s *topTest) shows(lines ...[]string) {
	s.Helper()
	has := func(line []string) bool {
		for shown := range strings.Lines(s.text()) {
			all := true
			for _, word := range line {
				all = all && strings.Contains(shown, word)
			}
			if all {
				return true
			}
		}
		return false
	}
	for _, line := range lines {
		for deadline := time.Now().Add(30 * time.Second); !has(line); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				s.Fatalf("the screen does not show %q in one line", line)
			}
		}
	}
}

// lacks waits until the screen does not have this.
func (s *topTest) lacks(word string) {
	s.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for ; strings.Contains(s.text(), word); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("the screen still shows %q", word)
		}
	}
}

// ends waits until the program has ended well, and demands that the terminal is as it was.
func (s *topTest) ends() {
	s.Helper()
	if err := s.cmd.Wait(); err != nil {
		s.Errorf("top ended with %v", err)
	}
	select {
	case <-s.drained:
	case <-time.After(30 * time.Second):
		s.Error("the terminal is still open")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if out := s.raw.String(); strings.Count(out, "\x1b[?1049h") != 1 || strings.Count(out, "\x1b[?1049l") != 1 {
		s.Error("the terminal was not left as it was")
	}
}

// waitsFor waits for a lock until the test ends or stop is called.
func waitsFor(t *testing.T, m *holdfast.Mutex) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if l, err := m.Lock(ctx); err == nil {
			_ = l.Unlock(context.Background()) // the store may be gone
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// TestTop: a person watches locks at a terminal, on each kind of store: what is held and waited for is shown, sorted,
// filtered and in detail, and goes when it is released. The terminal is resized meanwhile.
func TestTop(t *testing.T) {
	for name, url := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "locks.db") },
		"redis":    func(t *testing.T) string { return "redis://" + servers.Redis(t).Addr() },
		"postgres": func(t *testing.T) string { return servers.Postgres(t).URL("postgres", "", "postgres") },
		"etcd":     func(t *testing.T) string { return "etcd://" + servers.Etcd(t).Addr() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			watchLocks(t, url(t))
		})
	}
}

func watchLocks(t *testing.T, url string) {
	locks, err := holdfast.Open(t.Context(), url, holdfast.WithLabel("nightly"))
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	lock := func(name string) *holdfast.Lease {
		l, err := locks.Mutex(name).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	odd := strings.Repeat("😀", 127) + "\x1b[2J"
	job, _ := lock("job/a"), lock(odd)
	if _, err := locks.Semaphore("pool", 5).Acquire(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	other, err := holdfast.Open(t.Context(), url, holdfast.WithLabel("second"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	stop := waitsFor(t, other.Mutex("job/a"))

	s := startTop(t, url)
	s.shows([]string{"job/a", "lock", "nightly on ", "(pid", " 1 "}, []string{"3 of 3 queues, by name"},
		[]string{"pool", "2 of 5"}, []string{"😀😀😀", "…", "lock", "nightly"})
	s.types("/jo")
	s.shows([]string{"1 of 3 queues", "filter: jo"}, []string{"job/a"})
	s.lacks("pool")
	s.types("\r\r")
	s.shows([]string{"queue job/a"}, []string{"holds", "nightly on ", "lock"}, []string{"waits 1", "second on "})
	s.types("\x1b")
	s.shows([]string{"1 of 3 queues"})
	s.types("\x1b")
	s.shows([]string{"3 of 3 queues"})
	s.types("sss")
	s.shows([]string{"by waiters"})
	s.resize(50, 5)
	s.shows([]string{"terminal too small"}, []string{"50×5, need 60×6"})
	s.resize(80, 12)
	s.shows([]string{"NAME", "HOLDER", "WAIT"}, []string{"job/a", "nightly on "})
	s.types("?")
	s.shows([]string{"PgUp PgDn"})
	s.types("x")
	stop()
	s.shows([]string{"job/a", " 0"})
	if err := job.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.shows([]string{"2 of 2 queues"})
	s.lacks("job/a")
	s.types("q")
	s.ends()
}

// TestTopWhileStoreIsGone: the store is gone and comes back while it is watched. Both are shown.
func TestTopWhileStoreIsGone(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	url := "redis://" + server.Addr()
	s := startTop(t, url)
	s.shows([]string{"no queue is in use"})
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	s.shows([]string{"no connection for ", server.Addr()})
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	s.lacks("no connection")
	locks, err := holdfast.Open(t.Context(), url, holdfast.WithLabel("back"))
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	if _, err := locks.Mutex("again").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.shows([]string{"again", "back on "})
	s.types("\x03")
	s.ends()
}

// TestTopPlain: without a terminal there is a line for each lock and each change, and with --once a table.
func TestTopPlain(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "locks.db")
	bare(t, "top", "--once", "--store="+url).want(t, 0, nothing, nothing) // there is no file yet
	locks, err := holdfast.Open(t.Context(), url, holdfast.WithLabel("night\x1bly"))
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	l, err := locks.Mutex("job/a").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bare(t, "top", "--once", "--store="+url).want(t, 0, `^NAME +MODE +HOLDER +HELD +LEFT +TOKEN +WAITERS +LONGEST
job/a +lock +"night\\x1bly" on \S+ \(pid \d+\) +\d+m?s +\d+s +\d+ +0 +-
$`, nothing)
	bare(t, "top", "--once", "--store="+url, "other").want(t, 0, nothing, nothing)

	cmd := exec.CommandContext(t.Context(), os.Args[0], "top", "--store="+url, "--interval=100ms")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	reads := func(pattern string) {
		t.Helper()
		if !lines.Scan() || !regexp.MustCompile(pattern).MatchString(lines.Text()) {
			t.Fatalf("it wrote %q, want %q", lines.Text(), pattern)
		}
	}
	reads(`^\d\d:\d\d:\d\d  job/a  lock  "night`)
	if err := l.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	reads(`^\d\d:\d\d:\d\d  job/a  free$`)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// TestTopWrongly: what cannot be shown is said, with the exit code of its kind.
func TestTopWrongly(t *testing.T) {
	call(t, "top", "a", "b").complains(t, exitUsage, "one prefix")
	call(t, "top", "--interval=1ms").complains(t, exitUsage, "--interval")
	bare(t, "top", "--store=nosuch://x").complains(t, exitUsage, "no store is registered")
	bare(t, "top", "--once", "--store=redis://127.0.0.1:1").complains(t, exitStore, "127.0.0.1:1")
}

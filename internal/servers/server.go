package servers

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/child"
)

// Time limits, for a machine that is busy with other tests.
const (
	startPatience = time.Minute
	stopPatience  = 20 * time.Second
	pollEvery     = 5 * time.Millisecond
	maxClashes    = 20 // how often a start is repeated on other ports after a clash
	// printed of the log when a test fails; few, so that the logs of five servers do not hide the failure
	tailLines = 12
)

var (
	errClash   = errors.New("a port is in use by somebody else")
	errRunning = errors.New("it runs already")
	errStopped = errors.New("it does not run")
)

// A kind describes how one kind of server is run.
type kind struct {
	program   string
	portCount int
	env       []string
	args      func() []string // called when the ports are chosen
	ready     func() error    // returns nil when the server responds and is the process that was started

	// Most kinds do not set what follows.
	owner  *owner       // the user that runs it; nil: the user of this process
	fill   func() error // creates the data that it needs to start, in its empty folder
	stop   os.Signal    // the signal to end in good order; nil: SIGTERM
	forks  bool         // its child processes are not in its process group
	killed func() error // removes what it leaves behind when it is killed
}

// A Server is a real server that runs for one test. Each kind of server embeds it. Its methods may be called by any
// goroutine, one after the other. When they return nil, what they request has happened.
type Server struct {
	kind
	path  string
	dir   string
	pick  func(n int) ([]int, error)
	ports []int // once they are chosen

	mu   sync.Mutex
	proc *child.Process // nil while it is stopped
}

// newServer creates the folder of a server for the test t. When the test ends, the server is ended and the folder
// removed. The server is not started yet, so that its kind can put files into the folder.
func newServer(t testing.TB, k kind) *Server {
	t.Helper()
	path := Need(t, k.program)
	// Not t.TempDir: the log must outlive a test that fails, and the path of a socket must be short.
	dir, err := os.MkdirTemp("", "holdfast-"+k.program+"-") //nolint:usetesting // see above
	must(t, err)
	s := &Server{kind: k, path: path, dir: dir, pick: pickPorts}
	t.Cleanup(func() { s.close(t) })
	must(t, errors.Join(s.owner.own(dir), s.makeDataDir()))
	return s
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// atEnd calls do when the test ends, and reports its error.
func atEnd(t testing.TB, do func() error) {
	t.Cleanup(func() {
		if err := do(); err != nil {
			t.Errorf("%v", err)
		}
	})
}

// makeDataDir makes an empty folder for the server's data.
func (s *Server) makeDataDir() error {
	if err := os.Mkdir(s.dataDir(), 0o700); err != nil {
		return err
	}
	return s.owner.own(s.dataDir())
}

// close ends the server and removes its folder. If the test failed, it keeps the folder and prints the end of the log.
func (s *Server) close(t testing.TB) {
	if err := s.Kill(); err != nil && !errors.Is(err, errStopped) {
		t.Errorf("%v", err)
	}
	freePorts(s.ports)
	if t.Failed() {
		t.Logf("%s: its folder is kept: %s. The end of its log:\n%s", s.program, s.dir, s.logTail(0))
		return
	}
	// A child of the server was killed too, and may need a moment to end.
	err := pollWithin(stopPatience, func(context.Context) error { return os.RemoveAll(s.dir) })
	if err != nil {
		t.Errorf("%v", err)
	}
}

// Addr returns the address at which the server listens, as host:port.
func (s *Server) Addr() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port()))
}

// Port returns the port at which the server listens. It stays the same when the server is started again.
func (s *Server) Port() int { return s.ports[0] }

// Dir returns the server's temporary folder.
func (s *Server) Dir() string { return s.dir }

// Pid returns the id of the server's process, or 0 while it is stopped.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return 0
	}
	return s.proc.Cmd.Process.Pid
}

// Start starts the server again after Stop or Kill, on the same ports and with its data. It retries if a port is in
// use: another test binary may be probing it.
func (s *Server) Start() error { return s.start(maxClashes, nil) }

// startHere starts the server once, on the chosen ports.
func (s *Server) startHere() error { return s.start(1, nil) }

// firstStart starts the server on free ports, and again on others if another process uses one first.
func (s *Server) firstStart() error { return s.start(maxClashes, s.choosePorts) }

// choosePorts chooses free ports, and frees the ports that the server had.
func (s *Server) choosePorts() (err error) {
	freePorts(s.ports)
	s.ports, err = s.pick(s.portCount)
	return err
}

// start starts the server, and again if a port is in use. Before each attempt it calls prepare, unless that is nil.
func (s *Server) start(tries int, prepare func() error) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		return s.failed("start", errRunning)
	}
	if err := s.fillIfEmpty(); err != nil {
		return s.failed("make data", err)
	}
	for try := range tries {
		if try > 0 {
			time.Sleep(pollEvery) // not to spin
		}
		if prepare != nil {
			if err = prepare(); err != nil {
				break
			}
		}
		if err = s.startOnce(); !errors.Is(err, errClash) {
			break
		}
	}
	return s.failed("start", err)
}

// fillIfEmpty creates the data of a server that has none.
func (s *Server) fillIfEmpty() error {
	if s.fill == nil {
		return nil
	}
	if files, err := os.ReadDir(s.dataDir()); err != nil || len(files) > 0 {
		return err
	}
	err := s.fill()
	if err != nil { // the next start must not use incomplete data
		err = errors.Join(err, os.RemoveAll(s.dataDir()), s.makeDataDir())
	}
	return err
}

// run runs a program that prepares the server, as its user and with its log, to its end.
func (s *Server) run(path string, args ...string) error {
	proc, before, err := s.spawn(path, args, nil)
	if err != nil {
		return err
	}
	<-proc.Done
	if state := proc.Cmd.ProcessState; !state.Success() {
		return fmt.Errorf("%s: %v; it said:\n%s", filepath.Base(path), state, s.logTail(before))
	}
	return nil
}

// spawn starts a program as the server's user, in its folder and with its log, which has so many bytes before.
func (s *Server) spawn(path string, args, env []string) (proc *child.Process, before int64, err error) {
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, err
	}
	defer log.Close() //nolint:errcheck // the child has its own
	info, err := log.Stat()
	if err != nil {
		return nil, 0, err
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), env...)
	cmd.SysProcAttr = s.owner.attributes()
	proc, err = child.Start(cmd)
	return proc, info.Size(), err
}

func (s *Server) startOnce() error {
	proc, before, err := s.spawn(s.path, s.args(), s.env)
	if err != nil {
		return err
	}
	s.proc = proc
	if err = s.awaitReady(); err == nil {
		return nil
	}
	err = errors.Join(err, s.killAll(proc))
	s.proc = nil
	said := s.logTail(before)
	if saysClash(said) {
		err = errClash
	}
	return fmt.Errorf("%w; it said:\n%s", err, said)
}

// saysClash reports whether a server has found a port in use. Every server logs it in the words of the C library.
func saysClash(log string) bool {
	return strings.Contains(strings.ToLower(log), "address already in use")
}

// awaitReady waits until the server is ready. It returns an error if its process ends, or if it takes longer than
// startPatience.
func (s *Server) awaitReady() error {
	deadline := time.Now().Add(startPatience)
	for {
		err := s.ready()
		switch {
		case s.proc.Ended():
			return fmt.Errorf("it ended at once: %v", s.proc.Cmd.ProcessState)
		case err == nil:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("it was not ready after %v: %w", startPatience, err)
		}
		select {
		case <-s.proc.Done:
		case <-time.After(pollEvery):
		}
	}
}

// Stop ends the server in good order, as an operator does.
func (s *Server) Stop() error {
	return s.end("stop", func(p *child.Process) error {
		return errors.Join(s.resume(p), p.Terminate(cmp.Or[os.Signal](s.stop, syscall.SIGTERM), stopPatience))
	})
}

// Kill ends the server as kill -9 does.
func (s *Server) Kill() error { return s.end("kill", s.killAll) }

func (s *Server) end(what string, end func(*child.Process) error) error {
	return s.withProcess(what, func(p *child.Process) error {
		err := end(p)
		if p.Ended() {
			s.proc = nil
		}
		return err
	})
}

// LoseData removes the server's data while it is stopped.
func (s *Server) LoseData() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := errRunning
	if s.proc == nil {
		err = errors.Join(os.RemoveAll(s.dataDir()), s.makeDataDir())
	}
	return s.failed("lose data", err)
}

// Restart stops the server and starts it again on the same ports, with its data or without.
func (s *Server) Restart(keepData bool) error {
	if err := s.Stop(); err != nil {
		return err
	}
	if !keepData {
		if err := s.LoseData(); err != nil {
			return err
		}
	}
	return s.Start()
}

// Pause suspends the server, like a machine that swaps or is suspended. Its connections stay open, and the kernel still
// accepts new ones for it.
func (s *Server) Pause() error { return s.withProcess("pause", s.pause) }

// Continue ends a Pause.
func (s *Server) Continue() error { return s.withProcess("continue", s.resume) }

// withProcess calls a function with the current process.
func (s *Server) withProcess(what string, do func(*child.Process) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return s.failed(what, errStopped)
	}
	return s.failed(what, do(s.proc))
}

func (s *Server) failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", s.program, what, err)
}

// dataDir returns the folder of the server's data.
func (s *Server) dataDir() string { return filepath.Join(s.dir, "data") }

// logFile returns the path of the server's log.
func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

// logTail returns the last lines of the log, without its first bytes.
func (s *Server) logTail(after int64) string {
	log, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(log[min(after, int64(len(log))):]), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-tailLines):], []byte("\n")))
}

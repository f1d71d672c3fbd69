//go:build unix

// These tests build the real command and use it as people do: in shells, from cron, at a terminal.
package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/leaks"
)

// program is the command that the tests use.
var program string

func TestMain(m *testing.M) {
	for variable, do := range instead {
		if os.Getenv(variable) != "" {
			do()
			return
		}
	}
	if signal.Ignored(syscall.SIGHUP) { // under nohup, and all that is started here would ignore it too
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	code, err := buildAndRun(m)
	if err == nil && code == 0 {
		err = leaks.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// instead is what a run of this test binary does instead of testing, by the variable that is set for it.
var instead = map[string]func(){beatsOnly: beatOn}

// beatsOnly is set for a run of this test binary that only beats.
const beatsOnly = "HOLDFAST_TEST_BEATS"

// beatOn does what the script stays does, without starting any process, and obeys.
func beatOn() {
	err := os.WriteFile("running", nil, 0o600)
	for err == nil {
		text := fmt.Sprintf("%.6f", float64(time.Now().UnixMicro())/1e6)
		if err = os.WriteFile(".beat", []byte(text), 0o600); err == nil {
			err = os.Rename(".beat", "beat")
		}
		time.Sleep(100 * time.Millisecond)
		if _, gone := os.Stat("running"); gone != nil {
			return
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func buildAndRun(m *testing.M) (int, error) {
	folder, err := os.MkdirTemp("", "holdfast-e2e-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	program = filepath.Join(folder, "holdfast")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return m.Run(), nil
}

// patience is how long a test waits for what must happen.
const patience = time.Minute

// A desk is where one test works: a folder with a store of its own.
type desk struct {
	*testing.T
	folder string
	env    []string
}

// newDesk makes a desk. Tests that have one run side by side.
func newDesk(t *testing.T) *desk {
	t.Parallel()
	folder := t.TempDir()
	d := &desk{T: t, folder: folder}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HOLDFAST_") {
			d.env = append(d.env, v)
		}
	}
	d.env = append(d.env, "XDG_STATE_HOME="+d.path("state"), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
	return d
}

func (d *desk) path(name string) string { return filepath.Join(d.folder, name) }

// A process is the command while it runs.
type process struct {
	*exec.Cmd
	desk        *desk
	out, errors string // the files that it writes to
	ended       chan struct{}
}

// start runs holdfast in the desk's folder.
func (d *desk) start(args ...string) *process { return d.startProgram(program, args...) }

// shell runs a script, in which holdfast is a command.
func (d *desk) shell(script string) *process { return d.startProgram("/bin/sh", "-c", script) }

func (d *desk) startProgram(name string, args ...string) *process {
	d.Helper()
	return d.startCommand(exec.Command(name, args...))
}

func (d *desk) startCommand(cmd *exec.Cmd) *process {
	d.Helper()
	out, errs := d.temp(), d.temp()
	defer out.Close()
	defer errs.Close()
	cmd.Stdout, cmd.Stderr = out, errs
	p := d.begin(cmd)
	p.out, p.errors = out.Name(), errs.Name()
	return p
}

// begin starts a program in the desk's folder.
func (d *desk) begin(cmd *exec.Cmd) *process {
	d.Helper()
	p := &process{Cmd: cmd, desk: d, ended: make(chan struct{})}
	p.Dir, p.Env = d.folder, slices.Concat(d.env, p.Env)
	check(d, p.Start())
	go func() {
		p.Wait() //nolint:errcheck // its end is looked at by code
		close(p.ended)
	}()
	d.Cleanup(func() { p.Process.Kill(); <-p.ended }) //nolint:errcheck // mostly it has ended
	return p
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// temp is a new file for what a process writes.
func (d *desk) temp() *os.File {
	d.Helper()
	f, err := os.CreateTemp(d.folder, ".output-")
	check(d, err)
	return f
}

// code waits for the end and returns the exit code, or minus the signal that ended it.
func (p *process) code() int {
	p.desk.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.desk.Fatalf("%v does not end; it said %q, %q", p.Args, p.said(), p.complained())
	}
	status := p.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return -int(status.Signal())
	}
	return status.ExitStatus()
}

func (p *process) said() string       { return p.desk.read(p.out) }
func (p *process) complained() string { return p.desk.read(p.errors) }

// exits waits for the end and checks the exit code.
func (p *process) exits(want int) *process {
	p.desk.Helper()
	if got := p.code(); got != want {
		p.desk.Errorf("%v exits with %d, not %d; it said %q, %q", p.Args, got, want, p.said(), p.complained())
	}
	return p
}

func (p *process) signal(s os.Signal) {
	p.desk.Helper()
	check(p.desk, p.Process.Signal(s))
}

func (d *desk) read(path string) string {
	d.Helper()
	if !filepath.IsAbs(path) {
		path = d.path(path)
	}
	text, err := os.ReadFile(path)
	check(d, err)
	return string(text)
}

// has says whether a file of the desk is there.
func (d *desk) has(name string) bool {
	_, err := os.Stat(d.path(name))
	return err == nil
}

// put makes an empty file, which is how a test tells a script to go on.
func (d *desk) put(name string) {
	d.Helper()
	check(d, os.WriteFile(d.path(name), nil, 0o600))
}

// eventually waits until something is so.
func (d *desk) eventually(what string, is func() bool) {
	d.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			d.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// appears waits for a file.
func (d *desk) appears(name string) {
	d.Helper()
	d.eventually(name+" is there", func() bool { return d.has(name) })
}

// holds starts a command that holds a lock until the file free-NAME is there.
func (d *desk) holds(name string, flags ...string) *process {
	d.Helper()
	args := append([]string{"run", name}, flags...)
	p := d.start(append(args, "--", "sh", "-c", untilPut("held-"+name, "free-"+name))...)
	d.appears("held-" + name)
	return p
}

// untilPut is a script that says that it runs, and ends when it is told to.
func untilPut(says, told string) string {
	return fmt.Sprintf("echo $$ > .%[1]s && mv .%[1]s %[1]s; until test -e %[2]s; do sleep 0.01; done", says, told)
}

// A place is one of show --json.
type place struct {
	Owner struct {
		Label string
		PID   int
	}
	Token  string
	Shared bool
	LeftMS int64 `json:"left_ms"`
}

// show looks at a line.
func (d *desk) show(name string, flags ...string) (line struct{ Holders, Waiters []place }) {
	d.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{"show", "--json", name}, flags...)...)
	cmd.Dir, cmd.Env = d.folder, d.env
	out, err := cmd.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok && e.ExitCode() != 1 {
		d.Fatalf("show %s: %v, %s", name, err, e.Stderr)
	}
	if err := json.Unmarshal(out, &line); err != nil {
		d.Fatalf("show %s: %v, %q", name, err, out)
	}
	return line
}

// waiters waits until so many wait.
func (d *desk) waiters(name string, n int) {
	d.Helper()
	d.eventually(fmt.Sprintf("%d wait for %s", n, name), func() bool { return len(d.show(name).Waiters) == n })
}

// alone is a script that fails if it runs at the same time as itself: making the file fails if it is there.
const alone = `(set -C; : > inside) 2>/dev/null || { echo overlap >> overlaps; exit 99; }
%s
rm inside`

package demo

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/child"
)

// A staff is the worker processes that a test has started.
type staff struct {
	mu   sync.Mutex
	cmds []*exec.Cmd
}

func (s *staff) command(ctx context.Context) *exec.Cmd {
	cmd := workerCommand(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmds = append(s.cmds, cmd)
	return cmd
}

// check checks how many there were, and that none is left.
func (s *staff) check(t *testing.T, want int) {
	t.Helper()
	if len(s.cmds) != want {
		t.Errorf("%d processes were started, want %d", len(s.cmds), want)
	}
	for _, cmd := range s.cmds {
		if cmd.ProcessState == nil {
			t.Errorf("process %d was not waited for", cmd.Process.Pid)
		}
	}
}

// died counts those that were ended by a signal.
func (s *staff) died() (n int) {
	for _, cmd := range s.cmds {
		if !cmd.ProcessState.Exited() {
			n++
		}
	}
	return n
}

// TestDemo runs all of it in small, with real processes that are really stopped and killed.
func TestDemo(t *testing.T) {
	t.Parallel()
	var crew staff
	var out bytes.Buffer
	r := &run{Plan: &Plan{Items: 24, Workers: 4, Command: crew.command, Out: &out}, pausable: child.CanPause}
	if err := r.run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	t.Logf("\n%s", &out)
	crew.check(t, 3*4)
	checkGone(t, r.folder)
	checkText(t, out.String())
	const fates = `  worker \d was killed at item 18\n  worker \d was stopped at item 12 for \S+, the others sold `
	// Every worker has a pipe of its own, so the sale of item 8, which ends the sleep, may be read before that of 9:
	// the two others are seen to have sold 5, or 4.
	for _, want := range []string{
		`(?m)^4 processes sell 24 items\.`,
		`(?m)^Round 1: no lock\n` + fates + `\d+; its late write was taken\n`,
		`(?m)^Round 2: a naive lock, .*\n` + fates + `\d+; its late write was taken\n`,
		`(?m)^Round 3: Holdfast on a SQLite file, .*\n` + fates + `[45]; the fence refused its late write\n`,
		`(?m)^no lock  +\d+ +[1-9]\d* +[1-9]\d* +0 +\d+$`,
		`(?m)^naive lock  +\d+ +[1-9]\d* +[1-9]\d* +0 +\d+$`,
		`(?m)^Holdfast  +24 +0 +0 +[1-9]\d* +\d+$`,
	} {
		if child.CanPause && !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("the output does not have %s", want)
		}
	}
}

// checkText checks what makes the output fit for a README.
func checkText(t *testing.T, text string) {
	t.Helper()
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(all) > 28 {
		t.Errorf("%d lines are too many for a first screen", len(all))
	}
	for _, line := range all {
		if utf8.RuneCountInString(line) > 100 {
			t.Errorf("more than 100 columns: %q", line)
		}
		if strings.Contains(line, "\x1b") {
			t.Errorf("what is no terminal gets colours: %q", line)
		}
	}
}

// TestDemoWithoutPausing runs what a system sees that cannot stop a process: a payment that takes long.
func TestDemoWithoutPausing(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := &run{Plan: &Plan{Items: 20, Workers: 3, Command: workerCommand, Out: &out}}
	if err := r.run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	checkText(t, out.String())
	if !strings.Contains(out.String(), "cannot stop a process") || strings.Contains(out.String(), "was stopped") {
		t.Errorf("it does not say that nobody was stopped:\n%s", &out)
	}
}

// TestWithoutTheFence is a control: with the lock alone the late write is taken, and the verdict sees it. So it is the
// fence that the third round rests on, and the third round can fail.
func TestWithoutTheFence(t *testing.T) {
	if !child.CanPause {
		t.Skip("nobody is late on a system that cannot stop a process")
	}
	t.Parallel()
	r := &run{Plan: &Plan{Items: 20, Workers: 3, Command: workerCommand}, pausable: true, folder: t.TempDir()}
	r.screen = &lines{out: t.Output()}
	locks, err := r.openStore(t.Context())
	must(t, err)
	unfenced := r.fenced(locks)
	unfenced.order.Fence = false
	must(t, errors.Join(unfenced.run(t.Context()), locks.close()))
	a := &unfenced.account
	if a.oversold() == 0 || a.refused != 0 || a.showsSafety(true) == nil {
		t.Errorf("%d were oversold and %d writes refused: the fence makes no difference", a.oversold(), a.refused)
	}
	if a.overlaps() != 0 {
		t.Errorf("the lock by itself let two in at once, %d times", a.overlaps())
	}
}

// A spy is a screen that calls seen when a worker meets a fate in a round of Holdfast's.
type spy struct {
	lines
	fate  fate
	title string
	once  sync.Once
	seen  func()

	mu   sync.Mutex
	last string
}

func (s *spy) say(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasPrefix(line, "Round") {
		s.last = line
	}
	s.lines.say(line)
}

func (s *spy) draw(p *picture) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p == nil || !strings.HasPrefix(s.last, s.title) {
		return
	}
	for _, w := range p.workers {
		if w.fate == s.fate {
			s.once.Do(s.seen)
		}
	}
}

// TestInterrupted ends the demo as Ctrl-C does, on a store that is somebody's: just when a worker was killed, whose
// lease still lasts, and while one is stopped and another waits behind it. Nothing must be left, here or there.
func TestInterrupted(t *testing.T) {
	for name, fate := range map[string]fate{"killed": killed, "stopped": stopped} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const workers = 3
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var crew staff
			url := "sqlite:" + filepath.Join(t.TempDir(), "mine.db")
			r := &run{
				Plan:     &Plan{Items: 20, Workers: workers, Command: crew.command, Store: url},
				pausable: child.CanPause,
			}
			r.screen = &spy{lines: lines{out: t.Output()}, fate: fate, title: "Round 3", seen: interrupt}
			if err := r.run(ctx); !errors.Is(err, context.Canceled) {
				t.Fatalf("an interrupted run ends with %v", err)
			}
			crew.check(t, 3*workers)
			if n := crew.died(); child.CanPause && n > 3 {
				t.Errorf(
					"%d processes died of a signal, one of each round was killed: the others must end by themselves", n)
			}
			checkGone(t, r.folder)

			locks, err := holdfast.Open(t.Context(), url)
			must(t, err)
			defer locks.Close()
			for name, err := range locks.Names(t.Context(), "") {
				t.Errorf("left in the store: %q, %v", name, err)
			}
		})
	}
}

func checkGone(t *testing.T, folder string) {
	t.Helper()
	if _, err := os.Stat(folder); folder == "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder %q is left: %v", folder, err)
	}
}

// TestFailures: a worker that cannot work ends the run, with its reason, and nothing is left.
func TestFailures(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "no.db")
	must(t, os.WriteFile(broken, bytes.Repeat([]byte("this is no database"), 100), 0o600))
	for _, test := range []struct {
		name string
		plan Plan
		want string
	}{
		{"too few workers", Plan{Items: 20, Workers: 2}, "3 to 16 workers"},
		{"too many workers", Plan{Items: 20, Workers: 17}, "3 to 16 workers"},
		{"too few items", Plan{Items: 19, Workers: 3}, "20 to 10000 items"},
		{"too many items", Plan{Items: 10_001, Workers: 3}, "20 to 10000 items"},
		{"no URL", Plan{Items: 20, Workers: 3, Store: "elsewhere"}, "begins with a scheme"},
		{"one process only", Plan{Items: 20, Workers: 3, Store: "memory:x"}, "inside one process"},
		{"an unknown store", Plan{Items: 20, Workers: 3, Store: "abacus:"}, "no store is registered"},
		{"a broken store", Plan{Items: 20, Workers: 3, Store: "sqlite:" + broken}, "no.db"},
		{"no such program", Plan{Items: 20, Workers: 3, Command: func(ctx context.Context) *exec.Cmd {
			return exec.CommandContext(ctx, filepath.Join(t.TempDir(), "nothing"))
		}}, "a worker does not start"},
		{"a program that is no worker", Plan{Items: 20, Workers: 3, Command: func(ctx context.Context) *exec.Cmd {
			return exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
		}}, "worker"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.plan.Out = t.Output()
			r := &run{Plan: &test.plan, pausable: child.CanPause}
			err := r.run(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) ||
				!strings.HasPrefix(err.Error(), "holdfast: ") {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
			if r.folder != "" {
				checkGone(t, r.folder)
			}
		})
	}
}

package main_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// adopts is set for a run of this test binary that becomes the program of its arguments, as one that gets the orphans
// of its descendants.
const adopts = "HOLDFAST_TEST_ADOPTS"

func init() { instead[adopts] = adopt }

func adopt() {
	err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if err == nil {
		os.Unsetenv(adopts) //nolint:errcheck // it was there
		err = syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestReaps has holdfast get the orphans of others, as the first process of a container does. None must be left as a
// zombie, and the command's own end must not get lost among theirs.
func TestReaps(t *testing.T) {
	for name, command := range map[string]func(args ...string) *exec.Cmd{
		"first process": func(args ...string) *exec.Cmd {
			cmd := exec.Command(program, args...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
			return cmd
		},
		"subreaper": func(args ...string) *exec.Cmd {
			cmd := exec.Command(os.Args[0], append([]string{program}, args...)...)
			cmd.Env = []string{adopts + "=1"}
			return cmd
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := command("version").Run(); errors.Is(err, syscall.EPERM) {
				t.Skip("a namespace of processes needs root")
			}
			d := newDesk(t)
			orphans := "for i in 1 2 3; do (sh -c '" + untilPut("orphan$0", "die") + "' $i &); done; "
			p := d.startCommand(command("run", "x", "--", "sh", "-c", orphans+untilPut("held", "free")+"; exit 42"))
			d.appears("held")
			d.eventually("it has the orphans", func() bool { return children(t, p.Process.Pid) == 4 })
			d.put("die")
			d.eventually("all are reaped", func() bool { return children(t, p.Process.Pid) == 1 })
			d.put("free")
			p.exits(42)
		})
	}
}

// TestReapsLost has the lock lost while the command's group is more than its leader. Zombies must not count as a rest
// that has to be waited for.
func TestReapsLost(t *testing.T) {
	d := newDesk(t)
	cmd := exec.Command(os.Args[0], program, "run", "--ttl", "1m", "--kill-after", "30s", "x", "--", "sh", "-c",
		"(sh -c '"+untilPut("orphan", "die")+"' &); "+untilPut("held", "free"))
	cmd.Env = []string{adopts + "=1"}
	p := d.startCommand(cmd)
	d.appears("held")
	d.appears("orphan")
	d.start("break", "--yes", "x").exits(0)
	broken := time.Now()
	p.exits(79)
	if took := time.Since(broken); took > 20*time.Second {
		t.Errorf("it ended after %v, when --kill-after was over", took)
	}
}

// TestForegroundSparesOthers has a script start a process and become holdfast. That process is no part of the command:
// it gets none of its signals, and is not waited for.
func TestForegroundSparesOthers(t *testing.T) {
	d := newDesk(t)
	p := d.shell("sh -c '" + untilPut("beside", "free") + "; touch freed' & " +
		"exec holdfast run --foreground --kill-after 20s x -- sh -c '" + untilPut("held", "never") + "'")
	d.appears("beside")
	d.appears("held")
	told := time.Now()
	p.signal(syscall.SIGTERM)
	p.exits(128 + 15)
	if took := time.Since(told); took > 10*time.Second {
		t.Errorf("it ended after %v", took)
	}
	d.put("free")
	d.appears("freed")
}

// children is how many processes have this parent.
func children(t *testing.T, parent int) (n int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	check(t, err)
	for _, stat := range stats {
		text, _ := os.ReadFile(stat) // it may have ended meanwhile
		_, rest, _ := strings.Cut(string(text), ") ")
		var state string
		var of int
		if fmt.Sscan(rest, &state, &of); of == parent { //nolint:errcheck // likewise
			n++
		}
	}
	return n
}

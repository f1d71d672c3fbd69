package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A console is a terminal with a program at it, and somebody who types and reads.
type console struct {
	*desk
	*process
	keys *os.File

	mu   sync.Mutex
	text strings.Builder // what is on the screen
	seen int             // how much of it was read
}

// console starts a program at a terminal of its own.
func (d *desk) console(name string, args ...string) *console {
	d.Helper()
	keys, screen := openPseudoTerminal(d)
	defer screen.Close()
	cmd := exec.Command(name, args...)
	cmd.Env = []string{"PS1=ready> ", "ENV=", "TERM=dumb"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	c := &console{desk: d, keys: keys}
	read := make(chan struct{})
	go func() {
		defer close(read)
		page := make([]byte, 1024)
		for {
			n, err := keys.Read(page)
			c.mu.Lock()
			c.text.Write(page[:n])
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	d.Cleanup(func() {
		keys.Close()
		<-read
		if d.Failed() {
			d.Logf("the screen of %s:\n%s", cmd.Args, c.text.String())
		}
	})
	c.process = d.begin(cmd)
	c.out, c.errors = os.DevNull, os.DevNull
	return c
}

// atShell starts a shell with job control at a desk of its own. The test leaves it at its end.
func atShell(t *testing.T) (*desk, *console) {
	t.Helper()
	d := newDesk(t)
	c := d.console("sh", "-i")
	c.reads("ready> ")
	t.Cleanup(func() {
		if !t.Failed() {
			c.types("exit 0\n")
			c.exits(0)
		}
	})
	return d, c
}

// typesPiped types a command whose output goes to cat, and waits until cat runs: an interactive shell ignores Ctrl-Z,
// and so does a part of a pipe that it has just forked.
func (c *console) typesPiped(command string) {
	c.desk.Helper()
	c.types(command + " | (: > piped; exec cat)\n")
	c.desk.appears("piped")
}

// stopsJob presses Ctrl-Z, until the shell says that it did, and is back.
func (c *console) stopsJob() {
	c.desk.Helper()
	c.types(ctrlZ)
	c.reads("Stopped")
	c.reads("ready> ")
}

// interruptsJob presses Ctrl-C, until the shell is back.
func (c *console) interruptsJob() {
	c.desk.Helper()
	c.types(ctrlC)
	c.reads("ready> ")
}

// seesCode asks the shell for the exit code of the last command.
func (c *console) seesCode(want int) {
	c.desk.Helper()
	c.types("echo code $?\n")
	c.reads(fmt.Sprint("code ", want))
}

// openPseudoTerminal makes a terminal: what a person has of it, and what a program has.
func openPseudoTerminal(d *desk) (keys, screen *os.File) {
	d.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	check(d, err)
	var number int
	control(d, keys, func(fd int) (err error) {
		if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		}
		return err
	})
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	check(d, err)
	return keys, screen
}

// control does something with a file's descriptor. Fd would make reads block for ever.
func control(d *desk, f *os.File, do func(fd int) error) {
	d.Helper()
	raw, err := f.SyscallConn()
	check(d, err)
	var failed error
	check(d, raw.Control(func(fd uintptr) { failed = do(int(fd)) }))
	check(d, failed)
}

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

func (c *console) types(keys string) {
	c.desk.Helper()
	_, err := c.keys.WriteString(keys)
	check(c.desk, err)
}

// reads waits until the screen shows something new.
func (c *console) reads(what string) {
	c.desk.Helper()
	c.eventually("the screen shows "+what, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := strings.Index(c.text.String()[c.seen:], what)
		if i >= 0 {
			c.seen += i + len(what)
		}
		return i >= 0
	})
}

// screen is all that was ever shown.
func (c *console) screen() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// In these scripts a shell says with a redirection that it runs, and starts nothing before a key is pressed: dash
// forgets a Ctrl-C that comes before it has returned from vfork, whoever runs it.

// asks is a script that runs until it was typed a line.
const asks = `: > running; read line; echo "got $line"`

// sleeps is a script that runs until it is interrupted.
const sleeps = `: > running; exec sleep 600`

// interrupted presses Ctrl-C while a command of a script runs. The script must die of it.
func (d *desk) interrupted(shell, script string) {
	d.Helper()
	c := d.console(shell, "-c", script+"; echo went on")
	d.appears("running")
	c.types(ctrlC)
	c.exits(-int(syscall.SIGINT))
	if strings.Contains(c.screen(), "went on") {
		d.Error("the script went on")
	}
	d.start("run", "--no-wait", "x", "--", "true").exits(0)
}

// TestCtrlC interrupts a command. The script that it is a line of ends too, as if holdfast were not there.
func TestCtrlC(t *testing.T) { newDesk(t).interrupted("sh", "holdfast run x -- sh -c '"+sleeps+"'") }

// TestCtrlCRedirected interrupts a command that does not have the terminal. Bash ends a script only if what it waited
// for died of the signal.
func TestCtrlCRedirected(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	newDesk(t).interrupted(bash, "holdfast run x -- sh -c '"+sleeps+"' > out")
}

// TestCtrlCHandled has a command that handles the key by itself.
func TestCtrlCHandled(t *testing.T) {
	d := newDesk(t)
	c := d.console("sh", "-c",
		`holdfast run x -- sh -c 'trap "exit 7" INT; : > running; while :; do :; done'; echo code $?`)
	d.appears("running")
	c.types(ctrlC)
	c.reads("code 7")
	c.exits(0)
}

// TestCtrlCWhileWaiting interrupts the wait. Holdfast leaves the line and then dies of the signal, so that shells know.
func TestCtrlCWhileWaiting(t *testing.T) {
	d := newDesk(t)
	first := d.holds("x")
	c := d.console(program, "run", "x", "--", "true")
	d.waiters("x", 1)
	c.types(ctrlC)
	c.exits(-int(syscall.SIGINT))
	if line := d.show("x"); len(line.Waiters) != 0 {
		t.Errorf("it still stands in the line: %+v", line.Waiters)
	}
	d.put("free-x")
	first.exits(0)
}

// TestTerminalIsTheCommands lets the command read from the terminal, and then the script that it is a line of.
func TestTerminalIsTheCommands(t *testing.T) {
	d := newDesk(t)
	c := d.console("sh", "-c", "holdfast run x -- sh -c '"+asks+"'; "+asks)
	d.appears("running")
	c.types("one\n")
	c.reads("got one")
	c.types("two\n")
	c.reads("got two")
	c.exits(0)
}

// calmly is the script stays for a terminal: it obeys, and starts one process only, which beats. A shell that is just
// starting one (by vfork) cannot be stopped with it by Ctrl-Z, whoever runs it.
var calmly = beatsOnly + `=1 "` + os.Args[0] + `"`

// TestCtrlZ stops a job and continues it in time.
func TestCtrlZ(t *testing.T) {
	d, c := stopOnce(t)
	c.interruptsJob()
	c.seesCode(9)
	d.start("run", "--no-wait", "x", "--", "true").exits(0)
}

// stopOnce starts a job, stops it and brings it back to the front.
func stopOnce(t *testing.T) (*desk, *console) {
	d, c := atShell(t)
	c.types(`holdfast run --ttl 1m x -- sh -c '` + asks + `; trap "exit 9" INT; ` + calmly + "'\n")
	d.appears("running")
	c.stopsJob()
	if state := stateOf(t, d.show("x").Holders[0].Owner.PID); state != "T" {
		t.Errorf("holdfast is in the state %s", state)
	}
	c.types("fg\n")
	c.types("one\n")
	c.reads("got one")
	d.beat()
	return d, c
}

// TestCtrlZAgain stops it a second time, and lets it go on in the background.
func TestCtrlZAgain(t *testing.T) {
	d, c := stopOnce(t)
	c.stopsJob()
	stood := d.beat()
	if state := stateOf(t, d.leaderOf("x")); state != "T" {
		t.Errorf("the command is in the state %s", state)
	}
	c.types("bg\n")
	d.eventually("it goes on", func() bool { return d.beat().After(stood) })
	c.reads("ready> ")
	c.types("fg\n")
	c.reads("holdfast run")
	d.eventually("it has the terminal", func() bool { return c.foreground() == d.leaderOf("x") })
	c.interruptsJob()
	c.seesCode(9)
}

// foreground is the group of processes that has the terminal.
func (c *console) foreground() (group int) {
	c.desk.Helper()
	control(c.desk, c.keys, func(fd int) (err error) { group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP); return err })
	return group
}

// leaderOf is the command that runs under a lock: the only child of the holdfast that holds it.
func (d *desk) leaderOf(name string) (pid int) {
	d.Helper()
	holder := d.show(name).Holders[0].Owner.PID
	children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", holder))
	check(d, err)
	for _, c := range children {
		fmt.Sscan(d.read(c), &pid) //nolint:errcheck // most threads have none
	}
	return pid
}

// stateOf is the state of a process, as ps has it.
func stateOf(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	check(t, err)
	_, state, _ := strings.Cut(string(stat), ") ")
	return state[:1]
}

// TestCtrlZTooLong stops a job until its lock was lost. When it is continued, the command must not do one thing more:
// it writes without a pause, so that a hundred microseconds would be seen.
func TestCtrlZTooLong(t *testing.T) {
	for name, c := range map[string]struct {
		killAfter string
		lost      func(d *desk)
	}{
		"another has it": {"100ms", func(d *desk) { d.start("run", "x", "--", "true").exits(0) }},
		"within the grace": {"15s", func(d *desk) {
			d.eventually("the lease is over", func() bool { return d.show("x").Holders[0].LeftMS < 15_900 })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, sh := atShell(t)
			sh.types("holdfast run --ttl 2s --kill-after " + c.killAfter +
				` x -- sh -c 'trap "" TERM; touch running; while test -e running; do echo >> log; done'` + "\n")
			sh.losesLock(c.lost)
			sh.seesCode(79)
		})
	}
}

// losesLock stops the job that writes the log until its lock was lost, and continues it. It must not write once more.
func (c *console) losesLock(lost func(d *desk)) {
	d := c.desk
	d.Helper()
	d.appears("log")
	c.stopsJob()
	stood := len(d.read("log"))
	lost(d)
	c.types("fg\n")
	continued := time.Now()
	c.reads("lost x")
	c.reads("ready> ")
	if took := time.Since(continued); took > 10*time.Second {
		d.Errorf("it took %v", took)
	}
	if n := len(d.read("log")) - stood; n != 0 {
		d.Errorf("the command ran on, and wrote %d times", n)
	}
}

// TestCtrlZTooLongInPipe is the same for a command in a pipe that has got the terminal.
func TestCtrlZTooLongInPipe(t *testing.T) {
	d, sh := atShell(t)
	sh.typesPiped("{ holdfast run --ttl 2s --kill-after 100ms " +
		`x -- sh -c 'trap "" TERM; read line < /dev/tty; while :; do echo >> log; done'; ` +
		"echo $? > code; }")
	sh.types("one\n")
	sh.losesLock(func(d *desk) { d.start("run", "x", "--", "true").exits(0) })
	d.contains("code", "79\n")
}

// TestCtrlZInPipe stops a job of which the command is one part, and which another part may need the terminal.
func TestCtrlZInPipe(t *testing.T) {
	d, c := atShell(t)
	c.typesPiped("holdfast run x -- sh -c '" + calmly + "'")
	d.beat()
	c.stopsJob()
	stood := d.beat()
	if state := stateOf(t, d.leaderOf("x")); state != "T" {
		t.Errorf("the shell shows a stopped job, and the command is in the state %s", state)
	}
	c.types("fg\n")
	d.eventually("it goes on", func() bool { return d.beat().After(stood) })
	c.interruptsJob()
	d.start("run", "--no-wait", "x", "--", "true").exits(0)
}

// TestBackground starts a job in the background that then wants to read: it stops until it is brought to the front.
func TestBackground(t *testing.T) {
	d, c := atShell(t)
	c.types("holdfast run --ttl 1m x -- sh -c '" + asks + "' &\n")
	d.appears("running")
	d.eventually("holdfast is stopped", func() bool {
		holders := d.show("x").Holders
		return len(holders) == 1 && stateOf(t, holders[0].Owner.PID) == "T"
	})
	c.types("fg\n")
	c.types("one\n")
	c.reads("got one")
	c.reads("ready> ")
}

// TestNobodyToContinue presses the key where no shell has job control. The command goes on by itself.
func TestNobodyToContinue(t *testing.T) {
	d := newDesk(t)
	c := d.console(program, "run", "x", "--", "sh", "-c", calmly)
	d.beat()
	c.types(ctrlZ)
	pressed := time.Now()
	d.eventually("it goes on", func() bool { return d.beat().Sub(pressed) > 200*time.Millisecond })
	c.types(ctrlC)
	c.exits(-int(syscall.SIGINT))
}

// TestBreakAsks answers the question at a terminal.
func TestBreakAsks(t *testing.T) {
	d := newDesk(t)
	p := d.holds("x", "--ttl", "5s")
	no := d.console(program, "break", "x")
	no.reads("holds x since")
	no.reads("Break it? [y/N]")
	no.types("n\n")
	no.reads("not broken")
	no.exits(1)
	yes := d.console(program, "break", "x")
	yes.reads("Break it? [y/N]")
	yes.types("y\n")
	yes.reads("broken: ")
	yes.exits(0)
	p.exits(79)
}

// shapes are pipelines of which one part is a command that reads from the terminal, or sets it up, while its own input
// or output is something else. %s is that command.
var shapes = map[string]string{
	"output to a pipe":        "holdfast run --ttl 1m x -- sh -c '%s' | cat",
	"output to a file":        "holdfast run --ttl 1m x -- sh -c '%s' > out",
	"input from a pipe":       "seq 500 | holdfast run --ttl 1m x -- sh -c '%s'",
	"input from a file":       "holdfast run --ttl 1m x -- sh -c '%s' < /dev/null",
	"in the middle of a pipe": "seq 500 | holdfast run --ttl 1m x -- sh -c '%s' | cat",
	"one holdfast in another": "holdfast run --ttl 1m y -- holdfast run --ttl 1m x -- sh -c '%s' | cat",
	"two pipes in each other": "holdfast run --ttl 1m y -- " +
		"sh -c \"holdfast run --ttl 1m x -- sh -c \\\"%s\\\" | cat\" | cat",
	"in a subshell of a pipe":  "(holdfast run --ttl 1m x -- sh -c '%s') | cat",
	"nothing but the terminal": "holdfast run --ttl 1m x -- sh -c '%s'",
}

// reader reads two lines from the terminal. It first sets it up, as pagers and editors do.
const reader = `stty sane < /dev/tty; : > running; read one < /dev/tty; ` +
	`: > again; read two < /dev/tty; echo $one $two > log`

// TestReadsTerminal has commands of all shapes read from the terminal, be stopped and continued, and be interrupted.
func TestReadsTerminal(t *testing.T) {
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			d, c := atShell(t)
			script := reader
			if strings.Contains(shape, `\"%s\"`) {
				script = strings.ReplaceAll(script, "$", `\\\$`)
			}
			if line, isPiped := strings.CutSuffix(fmt.Sprintf(shape, script), " | cat"); isPiped {
				c.typesPiped(line)
			} else {
				c.types(line + "\n")
			}
			d.appears("running")
			c.stopsJob()
			c.types("fg\n")
			c.types("first\n")
			d.appears("again")
			c.types("second\n")
			c.reads("ready> ")
			d.contains("log", "first second\n")

			d.remove("running")
			c.types(fmt.Sprintf(shape, script) + "; echo went on\n")
			d.appears("running")
			c.interruptsJob()
			if strings.Contains(c.screen(), "\nwent on") {
				t.Error("the line went on after Ctrl-C")
			}
			d.start("run", "--no-wait", "x", "--", "true").exits(0)
		})
	}
}

// TestNobodyGivesTerminal has a command read from the terminal that no shell knows of: it is hung up, and the lock is
// free. Without that it would be stopped for ever, and its lock renewed. It reads when the shell has taken the terminal
// back: before, it would have it rightly.
func TestNobodyGivesTerminal(t *testing.T) {
	d, c := atShell(t)
	c.types("(holdfast run x -- sh -c '" + untilPut("running", "on") + "; read line < /dev/tty; sleep 600' &)\n")
	d.appears("running")
	c.reads("ready> ")
	d.put("on")
	d.start("run", "--wait", "20", "x", "--", "true").exits(0)
}

// TestPagerKeepsTerminal has another part of the pipe read from the terminal while the command runs.
func TestPagerKeepsTerminal(t *testing.T) {
	d, c := atShell(t)
	c.types("holdfast run x -- sh -c '" + untilPut("held", "free") +
		`' | sh -c 'read line < /dev/tty; echo "got $line"; cat'` + "\n")
	d.appears("held")
	c.types("one\n")
	c.reads("got one")
	d.put("free")
	c.reads("ready> ")
}

// TestForeground has the command and another part of the pipe read from one terminal, both get each key once, and be
// stopped and continued together.
func TestForeground(t *testing.T) {
	d, c := atShell(t)
	const script = `trap "echo >> $0-keys" INT; stty sane < /dev/tty; : > $0-runs; ` +
		`until read line < /dev/tty; do :; done; echo $line > $0-read; until test -e free; do :; done`
	c.types("holdfast run --foreground --ttl 1m x -- sh -c '" + script + "' one | sh -c '" + script + "' two\n")
	d.appears("one-runs")
	d.appears("two-runs")
	c.stopsJob()
	holder := d.show("x").Holders[0].Owner.PID
	if command := d.leaderOf("x"); stateOf(t, holder) != "T" || stateOf(t, command) != "T" {
		t.Errorf("holdfast is in the state %s, and the command in %s", stateOf(t, holder), stateOf(t, command))
	}
	c.types("fg\n")
	c.types("first\n")
	d.eventually("one has read", func() bool { return d.has("one-read") || d.has("two-read") })
	c.types("second\n")
	d.appears("one-read")
	d.appears("two-read")
	c.types(ctrlC)
	d.appears("one-keys")
	d.appears("two-keys")
	d.put("free")
	c.reads("ready> ")
	d.contains("one-keys", "\n") // each key once
	d.contains("two-keys", "\n")
	c.types("holdfast run --foreground x -- sh -c '" + sleeps + "' | cat\n")
	d.appears("running")
	c.interruptsJob()
	d.start("run", "--no-wait", "x", "--", "true").exits(0)
}

// TestForegroundLost has the lock lost. All that the command has started is ended, also where it made itself a session
// and its parent has gone.
func TestForegroundLost(t *testing.T) {
	d := newDesk(t)
	p := d.start("run", "--foreground", "--ttl", "3s", "--kill-after", "300ms", "x", "--", "sh", "-c",
		"(setsid sh -c \""+stays+"\" &); echo $$ > pid; trap '' TERM; while :; do sleep 0.05; done")
	d.beat()
	d.start("break", "--yes", "x").exits(0)
	p.exits(79)
	d.endedInTime()
}

// TestForegroundSignals passes on what is sent to holdfast alone. After SIGTERM it ends all that the command started.
func TestForegroundSignals(t *testing.T) {
	d := newDesk(t)
	p := d.start("run", "--foreground", "x", "--", "sh", "-c",
		"trap 'exit 42' USR1; touch running; while test -e running; do sleep 0.01; done")
	d.appears("running")
	p.signal(syscall.SIGUSR1)
	p.exits(42)
	q := d.start("run", "--foreground", "--kill-after", "0.3", "x", "--", "sh", "-c",
		"("+stays+") & trap 'exit 3' TERM; wait")
	d.beat()
	q.signal(syscall.SIGTERM)
	q.exits(3)
	d.endedInTime()
}

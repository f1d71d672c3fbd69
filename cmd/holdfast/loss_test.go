//go:build unix

package main_test

import (
	"database/sql"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite" // to get in the way of the store
)

// The scripts end with the test at the latest, since its folder is removed then.

// ends is a script that runs until it is told to end, and says that it was.
const ends = `trap 'echo told >> told; exit 5' TERM; touch running; while test -e running; do sleep 0.01; done`

// runs is a script that runs until it is allowed to end.
const runs = `touch running; while test -e running; do sleep 0.01; done`

// stays is a script that ignores being told, and writes down when it last ran.
const stays = `trap '' TERM INT; touch running; ` +
	`while test -e running; do date +%s.%N > .beat; mv .beat beat; sleep 0.02; done`

// beat is when the script stays last ran.
func (d *desk) beat() time.Time {
	d.Helper()
	d.appears("beat")
	seconds, err := strconv.ParseFloat(strings.TrimSpace(d.read("beat")), 64)
	check(d, err)
	return time.UnixMicro(int64(seconds * 1e6))
}

// stands waits until the script stays does not run any more, and says since when.
func (d *desk) stands() (last time.Time) {
	d.Helper()
	d.eventually("it stands still", func() bool {
		last = d.beat()
		time.Sleep(500 * time.Millisecond) // it beats every 20
		return d.beat().Equal(last)
	})
	return last
}

// endedInTime demands that the script stays did not run any more when holdfast had ended. It returns when it last ran.
func (d *desk) endedInTime() (last time.Time) {
	d.Helper()
	last = d.beat()
	if !d.stands().Equal(last) {
		d.Error("it still ran when holdfast had ended")
	}
	return last
}

// contains demands that a file has this text.
func (d *desk) contains(name, want string) {
	d.Helper()
	if got := d.read(name); got != want {
		d.Errorf("%s has %q, want %q", name, got, want)
	}
}

// TestBroken has an operator take the lock away from a running command. What the command has started is told as well.
func TestBroken(t *testing.T) {
	d := newDesk(t)
	p := d.start("run", "--ttl", "5s", "x", "--", "sh", "-c", "("+ends+"); true")
	d.appears("running")
	if said := d.start("break", "--yes", "x").exits(0).said(); !strings.Contains(said, "broken: sh on ") {
		t.Errorf("break says %q", said)
	}
	p.exits(79)
	if d.read("told") != "told\n" || !strings.Contains(p.complained(), "lost x on sqlite at ") {
		t.Errorf("%q, %q", d.read("told"), p.complained())
	}
}

// TestBrokenAndStubborn has a command that does not listen, with a child that does not listen either.
func TestBrokenAndStubborn(t *testing.T) {
	d := newDesk(t)
	p := d.start("run", "--ttl", "3s", "--kill-after", "300ms", "x", "--", "sh", "-c", "("+stays+") & "+"wait")
	d.beat()
	begun := time.Now()
	d.start("break", "--yes", "x").exits(0)
	broken := time.Now()
	p.exits(79)
	last := d.endedInTime()
	if last.Before(begun) {
		t.Error("it was not given its time")
	}
	if after := last.Sub(broken); after > 4*time.Second { // by itself it would have 5
		t.Errorf("it still ran after %v", after)
	}
}

// TestNobodyListens has holdfast write to a pipe that nobody reads. It must look after its command all the same.
func TestNobodyListens(t *testing.T) {
	d := newDesk(t)
	command := "holdfast run --ttl 3s --kill-after 300ms x -- sh -c '" + strings.ReplaceAll(stays, "'", `"`) + "' 2>&1"
	p := d.shell("{ " + command + "; echo $? > code; } | true & until test -e code; do sleep 0.01; done")
	d.beat()
	d.start("break", "--yes", "x").exits(0)
	p.exits(0)
	d.contains("code", "79\n")
}

// TestAcquireForNobody has holdfast print a lease to a pipe without a reader. No process knows of the lease then, so it
// must not stay taken.
func TestAcquireForNobody(t *testing.T) {
	d := newDesk(t)
	reader, writer, err := os.Pipe()
	check(t, err)
	check(t, reader.Close())
	defer writer.Close()
	cmd := exec.Command(program, "acquire", "x", "--for", "1h")
	errs := d.temp()
	defer errs.Close()
	cmd.Stdout, cmd.Stderr = writer, errs
	p := d.begin(cmd)
	p.out, p.errors = errs.Name(), errs.Name()
	p.exits(69)
	d.start("run", "--no-wait", "x", "--", "true").exits(0)
}

// TestNobodyReads has holdfast write to a pipe that is full and is not read, as with a pager that waits for a key. The
// command must be killed in time all the same.
func TestNobodyReads(t *testing.T) {
	d := newDesk(t)
	script := "yes >&2 & " + strings.ReplaceAll(stays, "'", `"`)
	command := "holdfast run --ttl 3s --kill-after 300ms x -- sh -c '" + script + "'"
	p := d.shell("{ " + command + "; echo $? > code; } 2>&1 | until test -e code; do sleep 0.01; done")
	d.beat()
	time.Sleep(200 * time.Millisecond) // the pipe is full after a moment
	d.start("break", "--yes", "x").exits(0)
	p.exits(0)
	d.contains("code", "79\n")
}

// TestStoreTakenAway takes the store's file away under a running command, and puts something else in its place.
func TestStoreTakenAway(t *testing.T) {
	for name, replace := range map[string]func(d *desk){
		"another file": func(d *desk) { d.start("run", "other", "--", "true").exits(0) },
		"a folder":     func(d *desk) { d.mkdir("state/holdfast/locks.db") },
		"nothing":      func(d *desk) { d.remove("state/holdfast") },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			const ttl, grace = time.Second, 4 * time.Second // so that a machine that is busy still kills it in time
			p := d.start("run", "--ttl", "1s", "--kill-after", "500ms", "--grace", "4s", "x", "--", "sh", "-c", stays)
			d.beat()
			taken := time.Now()
			d.moveStore("state/holdfast", "away")
			replace(d)
			p.exits(79)
			last := d.beat()
			if late := last.Sub(taken); late > ttl+grace {
				t.Errorf("it still ran after %v, when the store may have granted the lock to another", late)
			}
			if last.Before(taken) {
				t.Error("it did not run at all")
			}
			if !strings.Contains(p.complained(), "lost x") {
				t.Errorf("it says %q", p.complained())
			}
		})
	}
}

// TestStoreComesBack has the store say nothing until the lease has run out, and then answer again, while the command
// still takes its time to end. The next must not have the lock before the command is dead.
func TestStoreComesBack(t *testing.T) {
	d := newDesk(t)
	p := d.start("run", "--ttl", "1s", "--kill-after", "3s", "--grace", "8s", "x", "--", "sh", "-c", stays)
	d.beat()
	answer := d.silence()
	d.eventually("the command is told to end", func() bool { return strings.Contains(p.complained(), "lost x") })
	answer()
	next := d.start("run", "x", "--", "sh", "-c", "cp beat beat-then; sleep 0.1; cp beat beat-now")
	next.exits(0)
	if then, now := d.read("beat-then"), d.read("beat-now"); then != now {
		t.Errorf("the next ran beside it: it ran at %s and at %s", then, now)
	}
	p.exits(79)
}

// silence keeps the store from answering anyone, by taking the right to write and doing nothing with it.
func (d *desk) silence() (end func()) {
	d.Helper()
	db, err := sql.Open("sqlite", d.path("state/holdfast/locks.db"))
	check(d, err)
	db.SetMaxOpenConns(1)
	d.eventually("it can be silenced", func() bool {
		_, err := db.Exec("BEGIN IMMEDIATE")
		return err == nil
	})
	return func() {
		d.Helper()
		check(d, db.Close())
	}
}

// TestWaitIsBounded: another program sits on the file. Runs that wait for a bounded time, or not at all, end in about
// that time, and say that the store did not answer: whether the lock is taken is not known.
func TestWaitIsBounded(t *testing.T) {
	d := newDesk(t)
	d.start("run", "x", "--", "true").exits(0)
	answer := d.silence()
	defer answer()
	for _, c := range []struct {
		flag string
		most time.Duration // far more than it takes on a machine that is not busy, and less than before
	}{{"--wait=1s", 4 * time.Second}, {"--no-wait", 5500 * time.Millisecond}, {"--skip", 5500 * time.Millisecond}} {
		start := time.Now()
		p := d.start("run", c.flag, "x", "--", "touch", "ran").exits(69)
		if took := time.Since(start); took > c.most {
			t.Errorf("%s: it took %v", c.flag, took)
		}
		if said := p.complained(); !strings.Contains(said, "another program has been writing to it for") {
			t.Errorf("%s: it says %q", c.flag, said)
		}
	}
	if d.has("ran") {
		t.Error("a command ran")
	}
}

// TestWaitIsBoundedInTheLine: the other program comes while the run waits in the line.
func TestWaitIsBoundedInTheLine(t *testing.T) {
	d := newDesk(t)
	first := d.holds("x")
	start := time.Now()
	p := d.start("run", "--wait=2s", "x", "--", "touch", "ran")
	d.waiters("x", 1)
	answer := d.silence()
	p.exits(69)
	if took := time.Since(start); took > 5*time.Second { // before it was 2 s, and 5 for Close
		t.Errorf("it took %v", took)
	}
	answer()
	d.put("free-x")
	first.exits(0)
}

// moveStore moves the files of the store.
func (d *desk) moveStore(from, to string) {
	d.Helper()
	d.mkdir(to)
	files, err := os.ReadDir(d.path(from))
	check(d, err)
	for _, f := range files {
		check(d, os.Rename(d.path(from+"/"+f.Name()), d.path(to+"/"+f.Name())))
	}
}

func (d *desk) mkdir(name string) {
	d.Helper()
	check(d, os.MkdirAll(d.path(name), 0o700))
}

func (d *desk) remove(name string) {
	d.Helper()
	check(d, os.RemoveAll(d.path(name)))
}

// TestPaused stops holdfast alone for longer than the store keeps its place. When it goes on, the command must die at
// once.
func TestPaused(t *testing.T) {
	d := newDesk(t)
	p := d.start("run", "--ttl", "1s", "--kill-after", "4s", "x", "--", "sh", "-c", stays)
	d.beat()
	p.signal(syscall.SIGSTOP)
	d.start("run", "x", "--", "true").exits(0) // the pause lasts until another has the lock
	went := time.Now()
	p.signal(syscall.SIGCONT)
	p.exits(79)
	if after := d.beat().Sub(went); after > 3*time.Second { // and not when it had its time
		t.Errorf("it still ran %v after its holder went on", after)
	}
}

// TestPausedShortly stops holdfast for less than the ttl: nothing is lost.
func TestPausedShortly(t *testing.T) {
	d := newDesk(t)
	p := d.holds("x", "--ttl", "1m")
	p.signal(syscall.SIGSTOP)
	d.start("run", "--no-wait", "x", "--", "true").exits(75)
	p.signal(syscall.SIGCONT)
	d.put("free-x")
	p.exits(0)
}

// TestKilled kills holdfast while another waits. On Linux the command dies with it. The other gets the lock at once,
// and not when the ttl has passed, but never while a process of the command lives: here one that has only lost its
// parents.
func TestKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the command runs on there")
	}
	for name, c := range map[string]struct {
		script string
		lives  bool // a process of the command is left
	}{
		"all dead":          {"echo $$ > pid; " + runs, false},
		"a process is left": {"(trap '' TERM; " + runs + ") & echo $$ > pid; wait", true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			p := d.start("run", "--ttl", "10m", "x", "--", "sh", "-c", c.script)
			d.appears("running")
			d.appears("pid")
			next := d.start("run", "x", "--", "touch", "next")
			d.waiters("x", 1)
			p.signal(syscall.SIGKILL)
			d.commandIsGone()
			if c.lives {
				d.start("run", "--no-wait", "x", "--", "touch", "beside").exits(75)
				if d.has("next") || d.has("beside") {
					t.Error("another ran beside it")
				}
				d.remove("running")
			}
			freed := time.Now()
			next.exits(0)
			if took := time.Since(freed); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestSkipAfterKill: a job of cron was killed. The next one runs.
func TestSkipAfterKill(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the command runs on there")
	}
	d := newDesk(t)
	p := d.start("run", "--ttl", "10m", "x", "--", "sh", "-c", "echo $$ > pid; "+runs)
	d.appears("running")
	p.signal(syscall.SIGKILL)
	d.remove("running") // its sleep ends too
	d.commandIsGone()
	d.eventually("the next one runs", func() bool {
		d.start("run", "--skip", "x", "--", "touch", "ran").exits(0)
		return d.has("ran")
	})
}

// commandIsGone waits until there is no process of the number in the file pid, other than one that nobody has reaped.
func (d *desk) commandIsGone() {
	d.Helper()
	d.eventually("the command is gone", func() bool {
		pid := strings.TrimSpace(d.read("pid"))
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		_, state, _ := strings.Cut(string(stat), ") ")
		return pid != "" && (err != nil || strings.HasPrefix(state, "Z"))
	})
}

// TestSignals sends holdfast signals while the command runs. They are the command's.
func TestSignals(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "TERM": syscall.SIGTERM,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "ALRM": syscall.SIGALRM, "WINCH": syscall.SIGWINCH,
	} {
		t.Run(name, func(t *testing.T) {
			if signal.Ignored(sig) {
				t.Skip("it is ignored here")
			}
			d := newDesk(t)
			p := d.start("run", "x", "--", "sh", "-c",
				"trap 'exit 42' "+name+"; touch running; while test -e running; do sleep 0.01; done")
			d.appears("running")
			p.signal(sig)
			p.exits(42)
		})
	}
	t.Run("not caught", func(t *testing.T) {
		d := newDesk(t)
		p := d.holds("x")
		p.signal(syscall.SIGTERM)
		p.exits(128 + 15)
		d.start("run", "--no-wait", "x", "--", "true").exits(0)
	})
}

// tellOften sends SIGTERM again and again until the program has ended: a later signal must not put off the end.
func (p *process) tellOften(t *testing.T) {
	t.Helper()
	for told := time.Now(); time.Since(told) < 30*time.Second; {
		select {
		case <-p.ended:
			return
		case <-time.After(50 * time.Millisecond):
			p.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may have ended
		}
	}
	t.Error("it was not killed")
}

// TestKillAfterTerm tells holdfast to end while its command does not listen. With --kill-after the command is killed
// then, and so is what it started; the lock is kept until all of it is dead. Without, it may take its time.
func TestKillAfterTerm(t *testing.T) {
	for name, script := range map[string]string{
		"stubborn":                 stays,
		"stubborn in the rest":     "(" + stays + ") & trap 'exit 3' TERM; wait",
		"stopped by somebody":      stays,
		"stubborn, and told often": stays,
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			p := d.start("run", "--ttl", "1m", "--kill-after", "500ms", "x", "--", "sh", "-c", script)
			d.beat()
			if name == "stopped by somebody" {
				p.signal(syscall.SIGTSTP)
				d.stands()
			}
			told := time.Now()
			p.signal(syscall.SIGTERM)
			want := 128 + 9
			if name == "stubborn in the rest" {
				want = 3
			}
			if name == "stubborn, and told often" {
				p.tellOften(t) // also when all is done: then it may die of that
			} else {
				p.exits(want)
			}
			last := d.endedInTime()
			if name == "stubborn" && last.Before(told) {
				t.Error("it was not given its time")
			}
			d.start("run", "--no-wait", "x", "--", "true").exits(0)
		})
	}
	t.Run("without the flag", func(t *testing.T) {
		d := newDesk(t)
		p := d.start("run", "--ttl", "1m", "x", "--", "sh", "-c", "trap '' TERM; "+untilPut("held", "free"))
		d.appears("held")
		p.signal(syscall.SIGTERM)
		select {
		case <-p.ended:
			t.Error("it was killed")
		case <-time.After(6 * time.Second): // the default of the flag, and one more
		}
		d.put("free")
		p.exits(0)
	})
}

// TestSignalsWhileWaiting ends the wait. Nobody is left in the line.
func TestSignalsWhileWaiting(t *testing.T) {
	d := newDesk(t)
	first := d.holds("x")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(sig) { // as nohup has it
			continue
		}
		p := d.start("run", "x", "--", "touch", "ran")
		d.waiters("x", 1)
		p.signal(sig)
		p.exits(128 + int(sig))
		if line := d.show("x"); len(line.Waiters) != 0 {
			t.Errorf("it still stands in the line after %v: %+v", sig, line.Waiters)
		}
	}
	d.put("free-x")
	first.exits(0)
	if d.has("ran") {
		t.Error("a command ran after all")
	}
}

// TestStoppedWithoutTerminal stops a command where no shell could continue it. Its lock is kept meanwhile.
func TestStoppedWithoutTerminal(t *testing.T) {
	if tty, err := os.Open("/dev/tty"); err == nil {
		tty.Close()
		t.Skip("here is a terminal")
	}
	d := newDesk(t)
	p := d.start("run", "--ttl", "2s", "--kill-after", "100ms", "x", "--", "sh", "-c", stays)
	d.beat()
	p.signal(syscall.SIGTSTP)
	stood := d.stands()
	d.start("run", "--wait", "4s", "x", "--", "true").exits(75) // longer than ttl and grace together
	p.signal(syscall.SIGCONT)
	d.eventually("it goes on", func() bool { return d.beat().After(stood) })
	p.signal(syscall.SIGUSR1)
	p.exits(128 + int(syscall.SIGUSR1))
}

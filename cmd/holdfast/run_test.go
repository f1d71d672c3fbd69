//go:build unix

package main_test

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/servers"
)

func TestExitCodes(t *testing.T) {
	d := newDesk(t)
	d.put("no-program")
	check(t, os.WriteFile(d.path("no-interpreter"), []byte("#!/no/such\n"), 0o700))
	taken := d.holds("taken")
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"run x -- true", 0, ""},
		{"run x -- sh -c exit${IFS}3", 3, ""},
		{"run x -- sh -c kill${IFS}-9${IFS}$$", 128 + 9, ""},
		{"run x -- sh -c kill${IFS}-TERM${IFS}$$", 128 + 15, ""},
		{"run x true", 64, "after --"},
		{"run x --ttl soon -- true", 64, "ttl"},
		{"run --store nosuch:x x -- true", 64, "no store"},
		{"run --store memory: x -- true", 64, "exclude no other"},
		{"run --slots 2 taken -- true", 64, "in use as a lock"},
		{"run --store sqlite:no/such/folder x -- true", 69, "folder"},
		{"run --no-wait taken -- true", 75, "sh on "},
		{"run --wait 500ms taken -- true", 75, "sh on "},
		{"run --wait 0 taken -- true", 75, "sh on "},
		{"run --no-wait --busy-exit 9 taken -- true", 9, "locked by"},
		{"run --skip taken -- false", 0, ""},
		{"run --skip --verbose taken -- false", 0, "locked by"},
		{"run --skip --wait 500ms taken -- false", 0, ""},
		{"run --skip x -- false", 1, ""},
		{"run x -- ./no-program", 126, "no-program"},
		{"run x -- ./no-such-program", 127, "not found"},
		{"run x -- no-such-program", 127, "not found"},
		{"run x -- ./no-interpreter", 127, "not found"},
		{"run taken -- no-such-program", 127, "not found"}, // and does not wait for the lock to find that out
		{"show x", 1, "x is not held"},
		{"show taken", 0, ""},
		{"break --yes x", 1, "x is not held"},
		{"break taken", 64, "--yes"},
		{"nonsense", 64, "unknown command"},
		{"version", 0, ""},
	} {
		t.Run(c.args, func(t *testing.T) {
			p := d.start(strings.Fields(c.args)...).exits(c.code)
			said := p.complained()
			if !strings.Contains(said, c.says) || (said != "") != (c.says != "") {
				t.Errorf("it says %q", said)
			}
			if said != "" && (!strings.HasPrefix(said, "holdfast: ") || strings.Count(said, "\n") != 1) {
				t.Errorf("not one line: %q", said)
			}
		})
	}
	d.put("free-taken")
	taken.exits(0)
}

// TestDefaultStore checks that others can neither read nor write what is kept.
func TestDefaultStore(t *testing.T) {
	if runtime.GOOS == "darwin" {
		t.Skip("XDG_STATE_HOME is not used there")
	}
	d := newDesk(t)
	d.start("run", "x", "--", "true").exits(0)
	for path, want := range map[string]os.FileMode{
		"state/holdfast": 0o700 | os.ModeDir, "state/holdfast/locks.db": 0o600,
	} {
		info, err := os.Stat(d.path(path))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

func TestEnvironmentOfTheCommand(t *testing.T) {
	d := newDesk(t)
	d.env = append(d.env, "HOLDFAST_NAME_4=old", "MINE=kept", "HOLDFAST_STORE=sqlite:here.db?prefix=p")
	script := `for v in NAME TOKEN NAME_1 TOKEN_1 NAME_2 TOKEN_2 NAME_4; do eval "echo $v=\$HOLDFAST_$v"; done; ` +
		`echo $HOLDFAST_STORE $MINE; cd /; holdfast show --json b | grep '"token"'`
	p := d.start("run", "b", "a", "--", "sh", "-c", script).exits(0)
	got := strings.Split(p.said(), "\n")
	if len(got) < 9 {
		t.Fatal(p.said(), p.complained())
	}
	token := func(v string) string {
		_, token, _ := strings.Cut(v, "=")
		if _, err := holdfast.ParseToken(token); err != nil {
			t.Error(v, err)
		}
		return token
	}
	b, a := token(got[1]), token(got[5])
	want := []string{
		"NAME=b", "TOKEN=" + b, "NAME_1=b", "TOKEN_1=" + b, "NAME_2=a", "TOKEN_2=" + a, "NAME_4=",
		"sqlite:" + d.path("here.db") + "?prefix=p kept",
		`      "token": "` + b + `",`, // the store is found from another folder as well
		"",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestStreams checks that the command has holdfast's own input and output, and nothing else that is open but the
// descriptor by which the store knows that it lives. That has a number of two digits: scripts use the others.
func TestStreams(t *testing.T) {
	d := newDesk(t)
	p := d.shell(`printf 'one\ntwo\n' |
		(read first; holdfast run x -- sh -c 'read second; echo $second; echo bad >&2'; echo $first)`).exits(0)
	if p.said() != "two\none\n" || p.complained() != "bad\n" {
		t.Errorf("%q, %q", p.said(), p.complained())
	}
	if runtime.GOOS == "linux" {
		const list = "ls /proc/$$/fd"
		without, with := d.shell(list).exits(0), d.start("run", "x", "--", "sh", "-c", list).exits(0)
		had := strings.Fields(without.said())
		more := slices.DeleteFunc(strings.Fields(with.said()), func(fd string) bool { return slices.Contains(had, fd) })
		if len(more) != 1 || len(more[0]) < 2 {
			t.Errorf("open files: %q, and without holdfast %q", with.said(), without.said())
		}
	}
}

// TestLine lets several shells queue for a lock one after the other. They must get it in that order, and one at a time.
func TestLine(t *testing.T) {
	d := newDesk(t)
	first := d.holds("x")
	var waiters []*process
	for i := range 5 {
		script := fmt.Sprintf(alone, fmt.Sprintf("echo %d >> order; sleep 0.02", i))
		waiters = append(waiters, d.start("run", "x", "--", "sh", "-c", script))
		d.waiters("x", i+1)
	}
	if d.has("order") {
		t.Error("somebody did not wait")
	}
	d.put("free-x")
	first.exits(0)
	for _, w := range waiters {
		w.exits(0)
	}
	d.contains("order", "0\n1\n2\n3\n4\n")
}

// TestCron is a job that takes longer than the time between two starts.
func TestCron(t *testing.T) {
	d := newDesk(t)
	first := d.holds("nightly", "--skip")
	d.start("run", "--skip", "nightly", "--", "touch", "twice").exits(0)
	d.start("run", "--no-wait", "nightly", "--", "touch", "twice").exits(75)
	begin := time.Now()
	d.start("run", "--wait", "300ms", "nightly", "--", "touch", "twice").exits(75)
	if took := time.Since(begin); took < 300*time.Millisecond {
		t.Errorf("it waited for %v only", took)
	}
	if d.has("twice") {
		t.Error("the job ran twice at once")
	}
	late := d.start("run", "--skip", "--wait", "1m", "nightly", "--", "touch", "later")
	d.waiters("nightly", 1)
	d.put("free-nightly")
	first.exits(0)
	late.exits(0)
	d.start("run", "--skip", "nightly", "--", "touch", "next").exits(0)
	if !d.has("later") || !d.has("next") {
		t.Error("a job did not run when the lock was free")
	}
}

func TestSharedAndSlots(t *testing.T) {
	d := newDesk(t)
	reader := d.holds("book", "--shared")
	d.start("run", "--shared", "--no-wait", "book", "--", "true").exits(0)
	d.start("run", "--no-wait", "book", "--", "true").exits(75)
	if line := d.show("book"); len(line.Holders) != 1 || !line.Holders[0].Shared {
		t.Errorf("%+v", line)
	}
	d.put("free-book")
	reader.exits(0)
	d.start("run", "--no-wait", "book", "--", "true").exits(0)

	two := d.holds("oven", "--slots", "3", "--units", "2")
	d.start("run", "--slots", "3", "--no-wait", "oven", "--", "true").exits(0)
	d.start("run", "--slots", "3", "--units", "2", "--no-wait", "oven", "--", "true").exits(75)
	d.start("run", "--slots", "4", "--no-wait", "oven", "--", "true").exits(64)
	d.put("free-oven")
	two.exits(0)
	d.start("run", "--slots", "3", "--units", "3", "--no-wait", "oven", "--", "true").exits(0)
}

// TestSeveralNames checks that all are taken or none, in whatever order they are named.
func TestSeveralNames(t *testing.T) {
	d := newDesk(t)
	b := d.holds("b")
	d.start("run", "--no-wait", "a", "b", "c", "--", "true").exits(75)
	d.start("run", "--wait", "500ms", "a", "b", "c", "--", "true").exits(75)
	d.start("run", "--no-wait", "a", "c", "a", "--", "true").exits(0)
	d.put("free-b")
	b.exits(0)
	var all []*process
	for i := range 6 {
		names := [][]string{{"a", "b"}, {"b", "a"}}[i%2]
		all = append(all,
			d.start("run", names[0], names[1], "--", "sh", "-c", fmt.Sprintf(alone, "echo $HOLDFAST_NAME_2 >> done")))
	}
	for _, p := range all {
		p.exits(0)
	}
	if n := strings.Count(d.read("done"), "\n"); n != 6 {
		t.Errorf("%d of 6 ran", n)
	}
}

// TestScriptWithoutShebang runs files that the kernel does not take for programs. A shell runs them if they are text.
func TestScriptWithoutShebang(t *testing.T) {
	d := newDesk(t)
	for name, text := range map[string]string{
		"script": "echo \"$0 got $# $2\"\nexit 5\n", "-e": "exit 6\n", "empty": "",
		"binary": "\x7fELF\x00\x00\nexit 7\n",
	} {
		check(t, os.WriteFile(d.path(name), []byte(text), 0o700))
	}
	if p := d.start("run", "x", "--", "./script", "a", "b c").exits(5); p.said() != "./script got 2 b c\n" {
		t.Errorf("it says %q", p.said())
	}
	d.start("run", "x", "--", "./empty").exits(0)
	if p := d.start("run", "x", "--", "./binary").exits(126); !strings.Contains(p.complained(), "cannot be executed") {
		t.Errorf("it says %q", p.complained())
	}
	d.shell("PATH=.:$PATH; holdfast run x -- -e").exits(6)
	d.shell("PATH=$PWD:$PATH; holdfast run x -- script").exits(5)
}

// TestOneLineOfError has stores log before they fail. The error alone is what is said.
func TestOneLineOfError(t *testing.T) {
	d := newDesk(t)
	var hosts []string
	for range 3 {
		hosts = append(hosts, servers.Redis(t).Addr())
	}
	fresh := "redlock://" + strings.Join(hosts, ",")
	for _, args := range []string{
		"run --no-wait --store " + fresh + " x -- true", // none of the nodes has a vote yet
		"run --no-wait --store " + fresh + ",127.0.0.1:1,127.0.0.1:2 x -- true",
		"ls --store redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3",
	} {
		p := d.start(strings.Fields(args)...).exits(69)
		if said := p.complained(); strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "holdfast: ") {
			t.Errorf("%s: it says %q", args, said)
		}
	}
	d.start("redlock", "init", fresh).exits(0)
	p := d.start("run", "--store", fresh+",127.0.0.1:1,127.0.0.1:2", "x", "--", "true").exits(0)
	said := p.complained()
	if strings.Count(said, "holdfast: a node cannot be reached; ") != 2 || strings.Count(said, "\n") != 2 {
		t.Errorf("it says of nodes that it does without: %q", said)
	}
}

// TestNested runs holdfast under holdfast.
func TestNested(t *testing.T) {
	d := newDesk(t)
	for _, c := range []struct {
		script string
		code   int
	}{
		{"holdfast run x -- holdfast run x -- true", 64},
		{"holdfast run x -- holdfast run --no-wait x -- true", 64},
		{"holdfast run --shared x -- holdfast run --shared x -- true", 64},
		{"holdfast run x y -- holdfast run z y -- true", 64},
		{"holdfast run x -- holdfast run y -- holdfast run x -- true", 64},
		{"holdfast run x -- holdfast run y -- true", 0},
		{"holdfast run x -- holdfast run y -- holdfast run z -- true", 0},
		{"holdfast run --slots 2 s -- holdfast run --slots 2 s -- true", 0},
		{"holdfast run --slots 2 s -- holdfast run --slots 2 s -- holdfast run --slots 2 s -- true", 64},
		{"holdfast run x -- holdfast run --store sqlite:other.db x -- true", 0},
		{"holdfast run x -- sh -c 'unset HOLDFAST_HELD; holdfast run --no-wait x -- true'", 75},
		{"held=$(holdfast run x -- printenv HOLDFAST_HELD); HOLDFAST_HELD=$held holdfast run x -- true", 0},
		// The lock is held, but by another run.
		{`held=$(holdfast run x -- printenv HOLDFAST_HELD)
			holdfast run x -- sh -c 'HOLDFAST_HELD=$0 holdfast run --no-wait x -- true' $held`, 75},
	} {
		t.Run(c.script, func(t *testing.T) {
			p := d.shell(c.script).exits(c.code)
			if c.code == 64 && !strings.Contains(p.complained(), "would wait for itself") {
				t.Errorf("it says %q", p.complained())
			}
		})
	}
}

// TestTokens hands the exported tokens to a fence: a later holder's passes, and then an earlier one's does not.
func TestTokens(t *testing.T) {
	d := newDesk(t)
	var tokens []holdfast.Token
	for range 3 {
		p := d.start("run", "x", "--", "printenv", "HOLDFAST_TOKEN").exits(0)
		token, err := holdfast.ParseToken(strings.TrimSpace(p.said()))
		check(t, err)
		tokens = append(tokens, token)
	}
	var gate fence.Gate
	for _, token := range tokens {
		if err := gate.Enter(token); err != nil {
			t.Error(err)
		}
	}
	if err := gate.Enter(tokens[1]); err == nil {
		t.Error("an old token passes")
	}
}

func TestVerbose(t *testing.T) {
	d := newDesk(t)
	first := d.holds("x", "--label", "the first")
	p := d.start("run", "--verbose", "x", "--", "true")
	d.waiters("x", 1)
	d.put("free-x")
	first.exits(0)
	p.exits(0)
	lines := strings.Split(p.complained(), "\n")
	if len(lines) != 4 || !strings.Contains(lines[0], "waiting") || !strings.Contains(lines[0], "the first on ") ||
		!strings.Contains(lines[1], "acquired x after ") || !strings.Contains(lines[1], "token ") ||
		!strings.Contains(lines[2], "released") {
		t.Errorf("%q", lines)
	}
}

// TestStampede starts many at once on a store that is not there yet.
func TestStampede(t *testing.T) {
	d := newDesk(t)
	n := 200
	if testing.Short() {
		n = 30
	}
	var all []*process
	for range n {
		all = append(all,
			d.start("run", "x", "--", "sh", "-c", fmt.Sprintf(alone, "echo begin >> log; echo end >> log")))
	}
	for _, p := range all {
		p.exits(0)
		if said := p.complained(); said != "" {
			t.Errorf("it says %q", said)
		}
	}
	d.contains("log", strings.Repeat("begin\nend\n", n)) // one after the other
	if left := d.start("ls").exits(0).said(); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

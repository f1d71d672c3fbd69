package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/report"
)

// This binary has a lock that goes on believing, whatever it hears.
func init() { testkit.RegisterBeliever() }

func TestVerifyUsage(t *testing.T) {
	for _, test := range []struct {
		args []string
		code int
		want string // on stderr
	}{
		{[]string{"verify", "now"}, exitUsage, `unknown command "now"`},
		{[]string{"verify", "--time=soon"}, exitUsage, "see holdfast verify --help"},
		{[]string{"verify", "--workers=1", "--store=sqlite:x"}, exitUsage, "verify needs 2 to 32 workers"},
		{[]string{"verify", "--time=0s", "--store=sqlite:x"}, exitUsage, "verify takes from 1s"},
		{[]string{"verify", "--store=memory:"}, exitUsage, "a memory: store is inside one process"},
		{[]string{"verify", "--own-servers=abacus"}, exitUsage, "it can start redis, redis-aof, sentinel"},
		{[]string{"verify", "--own-servers=redis", "--store=sqlite:x"}, exitUsage, "leave out --store"},
		{[]string{"verify", "--store=redis://" + testkit.Nobody(t)}, exitStore, "it cannot be reached"},
		{
			[]string{"verify", "--store=sqlite:x", "--report=no/such/folder/run.html"}, exitUsage,
			"the report cannot be written",
		},
		{[]string{"verify", "worker"}, exitStore, "this command is for holdfast verify"},
	} {
		bare(t, test.args...).complains(t, test.code, test.want)
	}
}

func TestVerifyHelp(t *testing.T) {
	got := call(t, "verify", "--help")
	for _, want := range []string{
		"holdfast verify --store redis://", "--seed", "--own-servers KIND", "zookeeper +three",
		"never into the servers", "exits with 0",
	} {
		got.want(t, 0, want, nothing)
	}
	if strings.Contains(got.out, "worker ") {
		t.Errorf("the help has what is only for verify itself:\n%s", got.out)
	}
}

// A store that holds: the text says so, the report is a page, and the exit code is 0. The same seed is the same
// command.
func TestVerifyHolds(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "run.html")
	url := "sqlite:" + filepath.Join(dir, "locks.db") + "?ttl=600ms"
	got := bare(t, "verify", "--store", url, "--time=3s", "--seed=7", "--workers=2", "--faults=pause,kill", "--report",
		page)
	got.want(t, 0, `holdfast verify: HELD`, `seed 7`)
	got.want(t, 0, `repeat +holdfast verify --store '?sqlite:.* --time 3s --seed 7 --workers 2 --faults pause,kill`,
		`left out: faults of connections`)
	if text := read(t, page); !strings.Contains(text, "<html") || !strings.Contains(text, "mutual exclusion") {
		t.Errorf("the page is %d bytes long and says nothing", len(text))
	}
}

// A lock that is broken: the exit code says so, and the JSON has what was found. A pause may hit no holder, so there
// may have to be another.
func TestVerifyFinds(t *testing.T) {
	url := "believer://" + servers.Redis(t).Addr() + "?ttl=600ms"
	var got result
	for try := 0; try < 4 && got.code != exitViolated; try++ {
		got = bare(t, "verify", "--json", "--store", url, "--time=5s", "--seed=7", "--workers=3",
			"--faults=pause,pause-writer")
	}
	got.want(t, exitViolated, `^\{.*\}\n$`, `the locks did not hold: \d+ violations?; repeat it with: holdfast verify`)
	run, err := report.ReadJSON(strings.NewReader(got.out))
	if err != nil || run.Verdict() != report.Broken || run.Seed != 7 {
		t.Errorf("the JSON is %+v, %v", run, err)
	}
}

// A fault that a store does not have is an error of the caller's, also if it turns out late.
func TestVerifyUnknownFault(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "locks.db")
	got := bare(t, "verify", "--store", url, "--time=1s", "--workers=2", "--faults=leader-kill")
	got.want(t, exitUsage, nothing, `there is no fault "leader-kill" here; there are kill, starve`)
}

// Ctrl-C ends the workers, and what was seen is reported all the same.
func TestVerifyInterrupted(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "locks.db") + "?ttl=600ms"
	cmd := exec.Command(os.Args[0], "verify", "--json", "--store", url, "--time=1h", "--workers=2", "--faults=pause")
	var out bytes.Buffer
	cmd.Stdout = &out
	says, err := cmd.StderrPipe()
	check(t, err)
	check(t, cmd.Start())
	late := time.AfterFunc(testkit.ScenePatience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	said := ""
	for lines := bufio.NewScanner(says); lines.Scan(); {
		said += lines.Text() + "\n"
		if strings.Contains(lines.Text(), "pause: a worker") {
			check(t, cmd.Process.Signal(os.Interrupt))
		}
	}
	err = cmd.Wait()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != exitSignaled+int(syscall.SIGINT) ||
		!strings.Contains(said, "ended by a signal: interrupt") {
		t.Errorf("it ended with %v and said %s", err, said)
	}
	var summary struct {
		Operations, Violations int
	}
	if err := json.Unmarshal(out.Bytes(), &summary); err != nil || summary.Operations == 0 || summary.Violations > 0 {
		t.Errorf("it reported %+v, %v", summary, err)
	}
}

package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lab/broken"
	"github.com/holdfast-go/holdfast/lab/report"
)

func TestLabUsage(t *testing.T) {
	for _, test := range []struct {
		args []string
		code int
		want string // on stderr
	}{
		{[]string{"lab", "blind-delete"}, exitUsage, "write: holdfast lab run blind-delete"},
		{[]string{"lab", "run"}, exitUsage, "which rung?"},
		{[]string{"lab", "run", "abacus"}, exitUsage, "abacus is not known; holdfast lab lists the rungs"},
		{[]string{"lab", "run", "--all", "setnx-del"}, exitUsage, "leave out their names"},
		{[]string{"lab", "run", "--all", "--report=x.html"}, exitUsage, "--report is for one rung"},
		{[]string{"lab", "run", "--seed=one", "setnx-del"}, exitUsage, "see holdfast lab run --help"},
		{
			[]string{"lab", "run", "--report=/no/such/folder/x.html", "version-greater"}, exitStore,
			"the report cannot be written",
		},
		{[]string{"lab", "player"}, exitUncaught, "this command is for holdfast lab"},
	} {
		r := bare(t, test.args...)
		r.out = "" // the play before its report
		r.complains(t, test.code, test.want)
	}
}

// TestLabList: the list has each rung, for people and for programs.
func TestLabList(t *testing.T) {
	var list struct{ Rungs []struct{ Name, What string } }
	check(t, json.Unmarshal([]byte(bare(t, "lab", "--json").out), &list))
	text := bare(t, "lab").out
	for i, r := range broken.Rungs() {
		if list.Rungs[i].Name != r.Name || list.Rungs[i].What != r.What || !strings.Contains(text, " "+r.Name+" ") {
			t.Errorf("%s is not where it should be in %+v, or not in\n%s", r.Name, list, text)
		}
	}
}

// TestLabRun plays two rungs that need nothing, with a report of one, and reads what is written.
func TestLabRun(t *testing.T) {
	bare(t, "lab", "run", "version-greater", "row-client-clock").want(t, 0,
		`(?s)^12\. version-greater \(seed 1\).*What should hold: no ack.*the check of register saw it: two updates.*`+
			`with Holdfast \(fence\.Versioned\):.*which is refused.*no check saw anything.*What prevents it here.*`+
			`\n11\. row-client-clock .*\d ms  B has the lock\n.*the check of mutual exclusion saw it`, nothing)

	page := filepath.Join(t.TempDir(), "run.json")
	r := bare(t, "lab", "run", "version-greater", "--json", "--seed=7", "--report="+page)
	r.want(t, 0, "", nothing)
	var said struct{ Rungs []broken.OutcomeJSON }
	check(t, json.Unmarshal([]byte(r.out), &said))
	if o := said.Rungs[0]; !o.Caught || !o.Passed || o.Seed != 7 || len(o.Broken.Findings) == 0 ||
		len(o.Holdfast.Events) == 0 {
		t.Errorf("%+v", o)
	}
	for path, want := range map[string]report.Verdict{
		page: report.Broken, strings.Replace(page, ".json", "-holdfast.json", 1): report.Held,
	} {
		file, err := os.Open(path)
		check(t, err)
		run, err := report.ReadJSON(file)
		check(t, err)
		check(t, file.Close())
		if run.Verdict() != want || len(run.Workers) < 2 ||
			!strings.Contains(run.Command, "lab run version-greater --seed 7") {
			t.Errorf("%s: %s, want %s: %+v", path, run.Verdict(), want, run)
		}
	}
}

// TestLabProgram runs the program itself where no server is installed: a rung that needs none, whose players are
// processes, and one that needs Redis.
func TestLabProgram(t *testing.T) {
	program := filepath.Join(t.TempDir(), "holdfast.exe")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/holdfast").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, test := range []struct {
		rung string
		code int
		says string // a pattern
	}{
		{"thread-name", 0, `the check of mutual exclusion saw it: two were held at once for \d+ms, ` +
			`and they exclude each other \(A and B\)`},
		{"blind-delete", exitStore, `holdfast: lab: blind-delete needs redis-server, which is not installed\. ` +
			`To get it: apt-get install`},
	} {
		t.Run(test.rung, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			cmd := exec.Command(program, "lab", "run", test.rung)
			cmd.Env = append(os.Environ(), "TMPDIR="+folder, "PATH="+folder)
			out, _ := cmd.CombinedOutput() // the code says it
			said := strings.Join(strings.Fields(string(out)), " ")
			if code := cmd.ProcessState.ExitCode(); code != test.code ||
				!regexp.MustCompile(test.says).MatchString(said) {
				t.Errorf("code %d, want %d and %q:\n%s", code, test.code, test.says, out)
			}
			if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
				t.Errorf("it leaves %v in its temporary folder: %v", left, err)
			}
		})
	}
}

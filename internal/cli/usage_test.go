package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestWrongUse calls holdfast wrongly. Each time it has to say so in one line, and what to do about it.
func TestWrongUse(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"nonsense", "unknown command"},
		{"--nonsense", "unknown flag"},
		{"run", "after --"},
		{"run x", "after --"},
		{"run x true", "after --"},
		{"run x true -n", "come after --"},
		{"run -- true", "no name"},
		{"run x --", "no command"},
		{"run --wait 1s --no-wait x -- true", "contradict"},
		{"run --skip --busy-exit 9 x -- true", "contradict"},
		{"run --shared --slots 2 x -- true", "contradict"},
		{"run --units 2 x -- true", "--slots"},
		{"run --slots 0 x -- true", "at least 1"},
		{"run --slots 2 --units 3 x -- true", "1 to --slots"},
		{"run --slots 2000000 x -- true", "1048576"},
		{"run --busy-exit 256 x -- true", "0 to 255"},
		{"run --ttl 0 x -- true", "positive"},
		{"run --ttl 1000000h x -- true", "ttl"},
		{"run --wait soon x -- true", "write 30s"},
		{"run --wait -1s x -- true", "negative"},
		{"run --grace 1s --kill-after 1m x -- true", "too long"},
		{"run --label " + strings.Repeat("l", 513) + " x -- true", "512"},
		{"run " + strings.Repeat("n", 513) + " -- true", "512"},
		{"show", "one name"},
		{"show a b", "one name"},
		{"break", "one name"},
		{"break x", "--yes"},
		{"break --yes --token twelve x", "no token"},
		{"ls a b", "one prefix"},
		{"completion", "which shell"},
		{"completion tcsh", "not known"},
	} {
		t.Run(c.args, func(t *testing.T) {
			r := callOnFiles(t, strings.Fields(c.args)...)
			if strings.HasPrefix(c.args, "break --yes --token") {
				locked(t, "x")
				r = callOnFiles(t, strings.Fields(c.args)...)
			}
			if r.code != exitUsage || !strings.Contains(r.errors, c.says) {
				t.Errorf("exit code %d, %q", r.code, r.errors)
			}
			if !strings.HasPrefix(r.errors, "holdfast: ") || strings.Count(r.errors, "\n") != 1 || r.out != "" {
				t.Errorf("not one line: %q, %q", r.errors, r.out)
			}
		})
	}
}

// TestMemoryIsNoStoreForRun checks that nobody believes in a lock that keeps nobody out.
func TestMemoryIsNoStoreForRun(t *testing.T) {
	r := &run{app: &app{storeURL: "memory:"}, runFlags: &runFlags{}, names: []string{"x"}, command: []string{"true"}}
	if err := r.take(t.Context()); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "keeps nobody out") {
		t.Error(err)
	}
}

// TestHelp checks that every command explains itself.
func TestHelp(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		if cmd.Hidden {
			return
		}
		t.Run(cmd.CommandPath(), func(t *testing.T) {
			args := strings.Fields(cmd.CommandPath())[1:]
			r := call(t, append(args, "--help")...)
			if r.code != 0 || r.errors != "" {
				t.Errorf("exit code %d, %s", r.code, r.errors)
			}
			if cmd.Runnable() && (cmd.Example == "" || !strings.Contains(r.out, cmd.Example)) {
				t.Errorf("no example:\n%s", r.out)
			}
			if cmd.Short == "" {
				t.Error("no summary")
			}
			for line := range strings.Lines(cmd.Long + "\n" + cmd.Example) {
				if len([]rune(line)) > 101 {
					t.Errorf("wider than a terminal: %s", line)
				}
			}
		})
	}
	visit(newRoot(&app{}))
}

// TestExitCodesAreDocumented compares the table that the program shows with the one of docs/cli.md.
func TestExitCodesAreDocumented(t *testing.T) {
	r := call(t, "help", "exit-codes")
	doc := read(t, "../../docs/cli.md")
	_, doc, _ = strings.Cut(doc, "## Exit codes")
	doc, _, _ = strings.Cut(doc, "\n## ")
	for _, e := range exitCodes {
		if !regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(e.code) + ` +` + regexp.QuoteMeta(e.meaning) + `$`).MatchString(r.out) {
			t.Errorf("help has no line for %s:\n%s", e.code, r.out)
		}
		if row := "| " + e.code + " | " + e.meaning + " |\n"; !strings.Contains(doc, row) {
			t.Errorf("docs/cli.md has no row %s", row)
		}
	}
	if rows := strings.Count(doc, "\n| "); rows != len(exitCodes)+1 {
		t.Errorf("docs/cli.md has %d rows, and there are %d codes", rows-1, len(exitCodes))
	}
}

func TestVersion(t *testing.T) {
	if r := call(t, "version"); r.code != 0 || !regexp.MustCompile(`^holdfast \S+ \(.*go1\..*\)\n$`).MatchString(r.out) {
		t.Errorf("%+v", r)
	}
	if r := call(t, "version", "--json"); r.code != 0 || !strings.Contains(r.out, `"go": "go1.`) {
		t.Errorf("%+v", r)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if r := call(t, "completion", shell); r.code != 0 || !strings.Contains(r.out, "holdfast") {
			t.Errorf("%s: %d, %s", shell, r.code, r.errors)
		}
	}
	locked(t, "deploy/eu")
	locked(t, "deploy/us")
	locked(t, "nightly")
	for _, c := range []struct{ args, want string }{
		{"show deploy/", "deploy/eu\ndeploy/us\n:4\n"},
		{"break n", "nightly\n:4\n"},
		{"ls d", "deploy/eu\ndeploy/us\n:4\n"},
		{"run n", "nightly\n:4\n"},
		{"run nightly d", "deploy/eu\ndeploy/us\n:4\n"},
		{"run nightly -- d", ":0\n"},
		{"run nightly -- ls d", ":0\n"},
		{"show nightly d", ":4\n"},
		{"completion f", "fish\n:4\n"},
	} {
		if r := call(t, append([]string{"__completeNoDesc"}, strings.Split(c.args, " ")...)...); r.out != c.want {
			t.Errorf("%s: %q, want %q", c.args, r.out, c.want)
		}
	}
}

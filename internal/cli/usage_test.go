package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/store"
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
		{"run --wait -1 x -- true", "negative"},
		{"run --wait 1.2.3 x -- true", "write 30s"},
		{"run --wait . x -- true", "write 30s"},
		{"run --wait - x -- true", "write 30s"},
		{"run --wait 1e3 x -- true", "write 30s"},
		{"run --wait inf x -- true", "write 30s"},
		{"run --wait 99999999999999 x -- true", "write 30s"},
		{"run --wait= x -- true", "write 30s"},
		{"run --grace 1s --kill-after 1m x -- true", "too long"},
		{"run --label " + strings.Repeat("l", 513) + " x -- true", "512"},
		{"run " + strings.Repeat("n", 513) + " -- true", "512"},
		{"show", "one name"},
		{"show a b", "one name"},
		{"break", "one name"},
		{"break x", "--yes"},
		{"break --yes --token twelve x", "is not a token"},
		{"ls a b", "one prefix"},
		{"completion", "which shell"},
		{"completion tcsh", "not known"},
	} {
		t.Run(c.args, func(t *testing.T) {
			if strings.HasPrefix(c.args, "break --yes --token") {
				locked(t, "x")
			}
			callOnFiles(t, strings.Fields(c.args)...).complains(t, exitUsage, c.says)
		})
	}
}

// TestDurations: a number is seconds, as flock and timeout take it, for every flag that is a duration.
func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30": 30 * time.Second, "0.5": 500 * time.Millisecond, ".5": 500 * time.Millisecond, "0": 0, "+1": time.Second,
		"30s": 30 * time.Second, "1m30s": 90 * time.Second, "500ms": 500 * time.Millisecond, "1h": time.Hour,
	} {
		var got *time.Duration
		if err := (optionalDuration{&got}).Set(text); err != nil || *got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	flags := strings.Fields("--wait 2 --ttl 60 --kill-after 0.5 --grace 3")
	callOnFiles(t, slices.Concat([]string{"run", "x"}, flags, []string{"--", "true"})...).want(t, 0, nothing, nothing)
}

// TestMemoryIsNoStoreForRun checks that nobody believes in a lock that keeps nobody out.
func TestMemoryIsNoStoreForRun(t *testing.T) {
	r := &run{app: &app{storeURL: "memory:"}, runFlags: &runFlags{}, names: []string{"x"}, command: []string{"true"}}
	if err := r.acquire(t.Context()); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "exclude no other") {
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
			r.want(t, 0, "", nothing)
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
		if !regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(e.code) + ` +` + regexp.QuoteMeta(e.meaning) + `$`).
			MatchString(r.out) {
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
	r := call(t, "version")
	r.want(t, 0, `^holdfast \S+ \(.*go1\..*\)\n$`, nothing)
	call(t, "--version").want(t, 0, "^"+regexp.QuoteMeta(r.out)+"$", nothing)
	call(t, "version", "--json").want(t, 0, `"go": "go1\.`, nothing)
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		call(t, "completion", shell).want(t, 0, "holdfast", nothing)
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

// TestCompletionDescriptions checks that descriptions are plain text.
func TestCompletionDescriptions(t *testing.T) {
	locked(t, "good")
	locked(t, "evil\x1b[2J")
	for _, args := range []string{"", "run -", "break -", "show -", "demo -"} {
		r := call(t, append([]string{"__complete"}, strings.Split(args, " ")...)...)
		if strings.Contains(r.out, "`") || !strings.Contains(r.out, "\t") {
			t.Errorf("%s: %s", args, r.out)
		}
	}
	if r := call(t, "run", "--help"); !strings.Contains(r.out, "--slots N ") ||
		!strings.Contains(r.out, "--store URL ") {
		t.Errorf("the help does not name what flags take: %s", r.out)
	}
	if r := call(t, "__completeNoDesc", "show", ""); r.out != "good\n:4\n" {
		t.Errorf("%q", r.out)
	}
}

// TestBareBash completes in a bash without the package bash-completion.
func TestBareBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	folder := t.TempDir()
	script := filepath.Join(folder, "script")
	check(t, os.WriteFile(script, []byte(call(t, "completion", "bash").out), 0o600))
	// Words come as bash has them: split at = and :, with the last one being completed.
	for _, c := range []struct{ line, words, asked, reply string }{
		{"holdfast show de", "holdfast show de", "show de", "deploy"},
		{"holdfast show ", "holdfast show ''", "show ", "deploy"},
		{"holdfast show a:b", "holdfast show a : b", "show a:b", ""},
		{"holdfast show a: ", "holdfast show a : ''", "show a: ", "deploy"},
		{
			"holdfast --store=sqlite:x show d", "holdfast --store = sqlite : x show d",
			"--store=sqlite:x show d", "deploy",
		},
		{
			"holdfast --store redis://h:1 ls d", "holdfast --store redis : //h : 1 ls d",
			"--store redis://h:1 ls d", "deploy",
		},
		{"holdfast run --wait=", "holdfast run --wait = ''", "run --wait=", "deploy"},
		{"holdfast  ls  d", "holdfast ls d", "ls d", "deploy"},
	} {
		cmd := exec.CommandContext(t.Context(), bash, "--noprofile", "--norc", "-c", `
			source "$0"
			holdfast() { echo "$*" >&3; printf 'deploy\tit is\n:4\n'; }
			COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
			eval "COMP_WORDS=($2)"
			COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
			declare -F _get_comp_words_by_ref && exit 9
			exec 3>&1
			__start_holdfast 2>/dev/null
			echo "${COMPREPLY[*]}"`, script, c.line, c.words)
		out, err := cmd.CombinedOutput()
		if want := "__complete " + c.asked + "\n" + c.reply + "\n"; err != nil || string(out) != want {
			t.Errorf("%s: %v, %q, want %q", c.line, err, out, want)
		}
	}
}

// schemes are those that a store is registered for.
func schemes(t *testing.T) []string {
	t.Helper()
	_, err := store.Open(t.Context(), store.Location{Scheme: "no-such"})
	found := regexp.MustCompile(`\(known: (.*?)\)`).FindStringSubmatch(err.Error())
	if found == nil {
		t.Fatal(err)
	}
	return strings.Split(found[1], ", ")
}

// TestHelpListsStores compares the list of the help with the stores that there are.
func TestHelpListsStores(t *testing.T) {
	var listed []string
	help := call(t, "--help").out
	for _, s := range stores {
		scheme, _, _ := strings.Cut(s.url, ":")
		listed = append(listed, scheme)
		line := `(?m)^  ` + regexp.QuoteMeta(s.url) + ` +` + regexp.QuoteMeta(s.meaning) + `$`
		if !regexp.MustCompile(line).MatchString(help) {
			t.Errorf("no line for %s:\n%s", s.url, help)
		}
	}
	slices.Sort(listed)
	known := slices.DeleteFunc(schemes(t), func(s string) bool {
		return strings.HasPrefix(s, "valkey") && s != "valkey" || s == "believer" // which only these tests have
	})
	if !slices.Equal(listed, known) {
		t.Errorf("listed are %q, and there are %q", listed, known)
	}
}

// TestDocumentedStoresExist reads the URLs of stores in what people read first.
func TestDocumentedStoresExist(t *testing.T) {
	known := schemes(t)
	for _, file := range []string{"../../docs/cli.md", "../../README.md", "../../README.zh-CN.md"} {
		urls := regexp.MustCompile(`\b([a-z][a-z0-9+]*)(://|:[A-Z/])\S*`).FindAllStringSubmatch(read(t, file), -1)
		if len(urls) < 3 {
			t.Errorf("%s has %d URLs", file, len(urls))
		}
		for _, u := range urls {
			if u[1] != "https" && u[1] != "http" && !slices.Contains(known, u[1]) {
				t.Errorf("%s shows %s, and there is no such store", file, u[0])
			}
		}
	}
}

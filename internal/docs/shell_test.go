//go:build unix

package docs_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// TestCommands runs the commands of all pages, each block in a shell and a folder of its own. A block is in the
// language sh, crontab or console; in a console, commands follow a "$ ", and the other lines are their output. Lines
// that are not just run are in plays.
//
// The Chinese pages have the blocks of the English ones.
func TestCommands(t *testing.T) {
	played := &account{lines: map[string]bool{}}
	t.Run("pages", func(t *testing.T) {
		for _, p := range pages(t) {
			if strings.Contains(p.path, "zh-CN") {
				continue
			}
			for _, b := range p.blocks {
				if b.language == "" {
					for _, problem := range unmarked(b) {
						t.Errorf("%s:%s", p.path, problem)
					}
				}
				if !slices.Contains([]string{"sh", "crontab", "console"}, b.language) {
					continue
				}
				t.Run(fmt.Sprintf("%s:%d", filepath.Base(p.path), b.line), func(t *testing.T) {
					t.Parallel()
					problems, out := playBlock(t, b, plays, played)
					for _, problem := range problems {
						t.Errorf("%s:%s", p.path, problem)
					}
					if t.Failed() {
						t.Logf("the block printed:\n%s", out)
					}
				})
			}
		}
	})
	if t.Failed() {
		return
	}
	for _, line := range slices.Sorted(maps.Keys(plays)) {
		if !played.lines[line] {
			t.Errorf("plays has a line that no page has: %s", line)
		}
	}
	all := strings.Join(slices.Collect(maps.Keys(played.lines)), "\n")
	for _, program := range stubs {
		if !regexp.MustCompile(`\b` + program + `\b`).MatchString(all) {
			t.Errorf("stubs has a program that no page calls: %s", program)
		}
	}
	if len(played.lines) < 60 {
		t.Errorf("only %d different lines were played", len(played.lines))
	}
}

// TestCommandsCanFail plays blocks that are wrong, each in its own way.
func TestCommandsCanFail(t *testing.T) {
	const reason = "a reason"
	for _, c := range []struct {
		language, code string
		play           play // of the block as a whole
		problem        string
	}{
		{"sh", "holdfast run --unknown x -- true", play{}, `^1: .* exits with 64, not 0`},
		{"sh", "holdfast ls\nholdfast show x # it is free", play{}, `^2: holdfast show x exits with 1, not 0`},
		{"sh", "holdfast ls | cat", play{exits: 1}, `^1: .* exits with 0, not 1`},
		{"sh", "docker run holdfast", play{}, `^1: docker run holdfast exits with 127, not 0`},
		{"sh", "lease=$(holdfast acquire deploy) || exit\nholdfast ls", play{}, `ended before its last line`},
		{"sh", "holdfast ui --listen none", play{ready: "http"}, `^1: .* exits with`},
		{"sh", "holdfast lab run --sed 7", play{only: reason}, `^1: .* unknown flag`},
		{"sh", "holdfast show a b", play{only: reason}, `^1: .* one name`},
		{"sh", "holdfast ls a b", play{instead: "holdfast ls a"}, `^1: .* one prefix`},
		{"sh", "sh -c 'holdfast ls'", play{only: reason}, `^1: .* was not parsed`},
		{"sh", "make no-such-target", play{}, `^1: .* exits with 2, not 0`},
		{"sh", "go install github.com/holdfast-go/holdfast/cmd/hold@latest", play{}, `^1: .* exits with 1, not 0`},
		{"sh", "go -C bench run . --no-such-flag", play{}, `^1: .* exits with 1, not 0`},
		{"sh", "go -C bench test -v -run NoSuchTest .", play{}, `^1: .* exits with 1, not 0`},
		{"sh", "go generate ./...", play{}, `^1: .* exits with 1, not 0`},
		{"crontab", "0 2 * * * holdfast run x -- sh -c 'exit 3'", play{}, `^1: .* exits with 3, not 0`},
		{"crontab", "0 2 * * * holdfast run --once $(date +%F) x -- cat", play{}, `cron ends the command at the %`},
		{"console", "$ holdfast ls\nno such line", play{}, `^2: it does not print "no such line"`},
	} {
		t.Run(c.code, func(t *testing.T) {
			t.Parallel()
			b := block{language: c.language, line: 1, code: c.code + "\n"}
			problems, out := playBlock(t, b, map[string]play{c.code: c.play}, &account{lines: map[string]bool{}})
			if !regexp.MustCompile(c.problem).MatchString(strings.Join(problems, "\n")) {
				t.Errorf("the problems are %q, and none is %q; it printed:\n%s", problems, c.problem, out)
			}
		})
	}
	if len(unmarked(block{line: 1, code: "holdfast ls\n"})) == 0 {
		t.Error("a command in a block without a language passed")
	}
}

// unmarked returns the lines of a block without a language that are commands all the same.
func unmarked(b block) (problems []string) {
	command := regexp.MustCompile(`^(\$ )?(holdfast (--)?[a-z]+\s|make\s|go )`)
	n := b.line
	for line := range strings.Lines(b.code) {
		if command.MatchString(line) {
			problems = append(problems, fmt.Sprintf("%d: a command in a block without a language: %s", n, line))
		}
		n++
	}
	return problems
}

// TestInlineCommands checks the calls of holdfast in the prose of all pages: their commands and flags exist.
func TestInlineCommands(t *testing.T) {
	span := regexp.MustCompile("`holdfast( [^`]+)`")
	checked := 0
	for _, p := range pages(t) {
		if p.path == "CHANGELOG.md" { // it names what was there once
			continue
		}
		for _, m := range span.FindAllStringSubmatch(p.text, -1) {
			checked++
			if err := parseInline(strings.Fields(m[1])); err != nil {
				t.Errorf("%s: holdfast%s: %v", p.path, m[1], err)
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d calls were checked", checked)
	}
	for _, wrong := range []string{"rum x", "run --skp x", "lab run --sed 7 late-write"} {
		if parseInline(strings.Fields(wrong)) == nil {
			t.Errorf("holdfast %s passed", wrong)
		}
	}
}

// parseInline checks that the command and its flags exist. In prose, the values of flags are often left out.
func parseInline(words []string) error {
	root := cli.Command()
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	for _, word := range rest {
		if word == "--" {
			break
		}
		name, _, _ := strings.Cut(word, "=")
		if name, ok := strings.CutPrefix(name, "--"); ok && cmd.Flag(name) == nil {
			return fmt.Errorf("unknown flag --%s", name)
		}
	}
	return nil
}

// TestConfiguredCommands parses the calls of holdfast in units of systemd, and in lists of words as Docker and
// Kubernetes have them.
func TestConfiguredCommands(t *testing.T) {
	checked := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			for _, args := range configured(t, b) {
				checked++
				if err := parseCall(args); err != nil {
					t.Errorf("%s:%d: holdfast %s: %v", p.path, b.line, strings.Join(args, " "), err)
				}
			}
		}
	}
	if checked < 4 {
		t.Errorf("only %d calls were checked", checked)
	}
	wrong := configured(t, block{language: "ini", code: "ExecStart=/usr/local/bin/holdfast run --skp x -- true\n"})
	if len(wrong) != 1 || parseCall(wrong[0]) == nil {
		t.Errorf("a wrong call passed: %q", wrong)
	}
}

var (
	execLine = regexp.MustCompile(`(?m)^Exec\w+=\S*holdfast (.*)$`)
	words    = regexp.MustCompile(`\["holdfast",.*\]`)
)

// configured returns the arguments of each call of holdfast in a block of configuration.
func configured(t *testing.T, b block) (calls [][]string) {
	t.Helper()
	for _, m := range execLine.FindAllStringSubmatch(b.code, -1) {
		calls = append(calls, strings.Fields(m[1]))
	}
	for _, list := range words.FindAllString(b.code, -1) {
		var call []string
		testkit.Must(t, json.Unmarshal([]byte(list), &call))
		calls = append(calls, call[1:])
	}
	return calls
}

// An account has the lines that were played, without their comments.
type account struct {
	mu    sync.Mutex
	lines map[string]bool
}

func (a *account) add(line string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines[line] = true
}

// A script is what bash runs for a block. Lines of the page are counted as there.
type script struct {
	lines  []string
	from   []int          // for each of lines, the line of the page
	texts  map[int]string // of the lines of the page that are commands, without comments
	exits  map[int]int    // their exit codes
	parsed []int          // those of them whose calls of holdfast are recorded
	prints map[int]string // the lines of the page that are output
	redis  bool           // whether a line that is run names one of redisURLs
	faults []string
}

// redisURLs are the servers that pages name. A server of the test takes their place.
var redisURLs = regexp.MustCompile(
	`redis://(127\.0\.0\.1:6379|10\.0\.0\.5:6379|cache\.internal:6379|jobs:secret@redis\.internal)`)

// newScript returns the script of a block.
func newScript(b block, plays map[string]play) *script {
	s := &script{texts: map[int]string{}, exits: map[int]int{}, prints: map[int]string{}}
	n := b.line
	for line := range strings.Lines(b.code) {
		s.addLine(n, b.language, strings.TrimRight(line, "\n"), plays)
		n++
	}
	s.add(n, `echo end >>"$REPORT"`)
	return s
}

// addLine adds what line n of the page does.
func (s *script) addLine(n int, language, line string, plays map[string]play) {
	switch language {
	case "console":
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			s.prints[n] = line
			return
		}
		line = command
	case "crontab":
		command, err := fromCrontab(line)
		if err != nil {
			s.faults = append(s.faults, fmt.Sprintf("%d: %v", n, err))
			return
		}
		line = command
	}
	text := strings.TrimSpace(comment.ReplaceAllString(line, ""))
	if text == "" {
		s.add(n, line) // it may be a part of a longer command
		return
	}
	p := plays[text]
	s.texts[n], s.exits[n] = text, p.exits
	if p.before != "" {
		s.add(n, p.before)
	}
	if p.only != "" || p.instead != "" {
		s.parsed = append(s.parsed, n)
		s.add(n, fmt.Sprintf("( export PATH=$RECORDER LINE=%d", n), line, ") 2>/dev/null || :")
		line = p.instead
	}
	if p.ready != "" {
		line = fmt.Sprintf("serve '%s' %s", p.ready, line)
	}
	s.redis = s.redis || redisURLs.MatchString(p.before+line)
	s.add(n, line)
}

// add adds lines to the script that line n of the page stands for.
func (s *script) add(n int, lines ...string) {
	for _, line := range lines {
		s.lines = append(s.lines, line)
		s.from = append(s.from, n)
	}
}

var (
	comment = regexp.MustCompile(`(^|\s+)#.*$`)
	job     = regexp.MustCompile(`^(?:[-\d*/,]+\s+){5}(.*)$`)
	calls   = regexp.MustCompile(`(^|[|&;('"]\s*)holdfast `)
	number  = regexp.MustCompile(`\d[\d.]*(µs|ms|s\b)?`)
)

// fromCrontab returns a line of a crontab as a shell has it: nothing, a variable, or the command of a job.
func fromCrontab(line string) (string, error) {
	parts := job.FindStringSubmatch(line)
	switch {
	case line == "" || strings.HasPrefix(line, "#"):
		return "", nil
	case parts == nil && strings.Contains(line, "="):
		return "export " + line, nil
	case parts == nil:
		return "", fmt.Errorf("%s: that is no line of a crontab", line)
	case strings.Contains(strings.ReplaceAll(parts[1], `\%`, ""), "%"):
		return "", fmt.Errorf("%s: cron ends the command at the %%", line)
	}
	return strings.ReplaceAll(parts[1], `\%`, "%"), nil
}

// checkReport compares the exit codes with those that are expected. A report has the line and the code of each command
// that failed, and ends with "end".
func (s *script) checkReport(report string) (problems []string) {
	codes := map[int]int{}
	for line := range strings.Lines(report) {
		var i, code int
		if n, _ := fmt.Sscan(line, &i, &code); n == 2 && i <= len(s.from) {
			codes[s.from[i-1]] = code
		}
	}
	for _, n := range slices.Sorted(maps.Keys(s.texts)) {
		if got, want := codes[n], s.exits[n]; got != want {
			problems = append(problems, fmt.Sprintf("%d: %s exits with %d, not %d", n, s.texts[n], got, want))
		}
	}
	if !strings.Contains(report, "end\n") {
		problems = append(problems, fmt.Sprintf("%d: the block ended before its last line", s.from[0]))
	}
	return problems
}

// checkCalls parses the recorded calls of holdfast.
func (s *script) checkCalls(t *testing.T, dir string) (problems []string) {
	t.Helper()
	for _, n := range s.parsed {
		files, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("%d-*", n)))
		testkit.Must(t, err)
		if len(files) == 0 && calls.MatchString(s.texts[n]) {
			problems = append(problems, fmt.Sprintf("%d: %s was not parsed", n, s.texts[n]))
		}
		for _, file := range files {
			args, err := os.ReadFile(file)
			testkit.Must(t, err)
			if err := parseCall(strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00")); err != nil {
				problems = append(problems, fmt.Sprintf("%d: %s: %v", n, s.texts[n], err))
			}
		}
	}
	return problems
}

// parseCall checks the arguments of holdfast as far as cobra does before a command runs.
func parseCall(args []string) error {
	cmd, rest, err := cli.Command().Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// checkOutput looks for the output that the page shows. Numbers may differ, and "..." stands for more lines.
func (s *script) checkOutput(out string) (problems []string) {
	for _, n := range slices.Sorted(maps.Keys(s.prints)) {
		var pattern strings.Builder
		for i, words := range number.Split(s.prints[n], -1) {
			if i > 0 {
				pattern.WriteString(`\d\S*`)
			}
			pattern.WriteString(regexp.QuoteMeta(words))
		}
		if s.prints[n] != "..." && !regexp.MustCompile("(?m)^"+pattern.String()+"$").MatchString(out) {
			problems = append(problems, fmt.Sprintf("%d: it does not print %q", n, s.prints[n]))
		}
	}
	return problems
}

// playBlock runs a block, and returns what is wrong with it, and what it printed.
func playBlock(t *testing.T, b block, plays map[string]play, played *account) (problems []string, out string) {
	t.Helper()
	s := newScript(b, plays)
	for _, text := range s.texts {
		played.add(text)
	}
	box := newSandbox(t)
	report, out := box.run(t, s)
	problems = slices.Concat(s.faults, s.checkReport(report), s.checkCalls(t, box.calls()))
	if len(s.parsed) == 0 {
		problems = append(problems, s.checkOutput(out)...)
	}
	return problems, out
}

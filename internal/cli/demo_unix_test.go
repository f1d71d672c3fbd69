//go:build unix

package cli

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestDemoProgram runs the program itself, which starts itself again as its own workers: once to its end, and once
// until a signal. It must leave nothing behind either time.
func TestDemoProgram(t *testing.T) {
	program := filepath.Join(t.TempDir(), "holdfast")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/holdfast").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, test := range []struct {
		name        string
		interruptAt string // the line; empty: none
		code        int
		last        string // a line of stdout, or all of stderr; a pattern
	}{
		// On a machine that is busy the fence may refuse more than the one write that the demo makes late.
		{"to its end", "", 0, `(?m)^Holdfast      20         0                  0 +[1-9]\d* `},
		{
			"interrupted", "Round 2", exitSignaled + int(syscall.SIGINT),
			"holdfast: the demo was ended by a signal: interrupt\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			cmd := exec.Command(program, "demo", "--items=20", "--workers=3")
			cmd.Env = append(os.Environ(), "TMPDIR="+folder, storeEnv+"=abacus:") // which it does not look at
			var errs strings.Builder
			cmd.Stderr = &errs
			out, err := cmd.StdoutPipe()
			check(t, err)
			check(t, cmd.Start())
			var said strings.Builder
			for lines := bufio.NewScanner(out); lines.Scan(); {
				said.WriteString(lines.Text() + "\n")
				if test.interruptAt != "" && strings.HasPrefix(lines.Text(), test.interruptAt) {
					if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
						t.Error(err)
					}
				}
			}
			cmd.Wait() //nolint:errcheck // the code says it
			if code := cmd.ProcessState.ExitCode(); code != test.code ||
				!regexp.MustCompile(test.last).MatchString(said.String()+errs.String()) {
				t.Errorf("code %d, want %d and %q:\n%s%s", code, test.code, test.last, &said, &errs)
			}
			if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
				t.Errorf("it leaves %v in its temporary folder: %v", left, err)
			}
		})
	}
}

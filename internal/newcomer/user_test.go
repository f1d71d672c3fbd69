//go:build unix

package newcomer_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/leaks"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// A user is a new user of Holdfast, with a home, a clone of the repository, and a folder for programs.
type user struct {
	home, clone, bin string
}

// newUser returns a user whose clone has what is in the checkout.
func newUser(t *testing.T) *user {
	dir := t.TempDir()
	u := &user{home: filepath.Join(dir, "home"), clone: filepath.Join(dir, "holdfast"), bin: filepath.Join(dir, "bin")}
	testkit.Must(t, os.Mkdir(u.home, 0o700))
	testkit.Must(t, os.Mkdir(u.bin, 0o700))
	u.script(t, "../bin/date", `[ "$1" = +%F ] && echo 2026-11-18`) // a day that does not end during the test
	root, err := filepath.Abs("../..")
	testkit.Must(t, err)
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		u.clone = root // a copy without a history, such as the module cache has
		return u
	}
	output(t, root, os.Environ(), 0, "git", "clone", "--quiet", root, u.clone)
	u.copyChanges(t, root)
	return u
}

// copyChanges copies what is not committed, so that a change is tested before its commit. Ignored files are not copied.
func (u *user) copyChanges(t *testing.T, root string) {
	changed := output(t, root, os.Environ(), 0, "git", "diff", "--name-only", "--no-renames", "--relative", "HEAD") +
		output(t, root, os.Environ(), 0, "git", "ls-files", "--others", "--exclude-standard")
	for path := range strings.Lines(changed) {
		path = strings.TrimSpace(path)
		copied := filepath.Join(u.clone, path)
		text, err := os.ReadFile(filepath.Join(root, path))
		if errors.Is(err, os.ErrNotExist) {
			testkit.Must(t, os.Remove(copied))
			continue
		}
		testkit.Must(t, err)
		testkit.Must(t, os.MkdirAll(filepath.Dir(copied), 0o700))
		testkit.Must(t, os.WriteFile(copied, text, 0o700)) //nolint:gosec // it may be a script
	}
}

// env returns the environment of the user's terminal. Of the machine's it has no settings of Holdfast.
func (u *user) env(more ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "HOLDFAST_") || strings.HasPrefix(v, "XDG_STATE_HOME=")
	})
	return slices.Concat(env, []string{"HOME=" + u.home, "PATH=" + u.bin + ":" + os.Getenv("PATH")}, more)
}

// cronEnv returns the environment that cron gives to a job, with the folder of programs added to its PATH.
func (u *user) cronEnv() []string {
	return []string{"HOME=" + u.home, "LOGNAME=newcomer", "SHELL=/bin/sh", "PATH=" + u.bin + ":/usr/bin:/bin"}
}

// goEnv returns the environment of the go command. It has the caches of this machine, and no flags but the one with
// which `make test` has filled them.
func (u *user) goEnv(more ...string) []string {
	return slices.Concat(os.Environ(), []string{"GOBIN=" + u.bin, "GOFLAGS=-trimpath", "GOWORK=off"}, more)
}

// shell runs a line in the user's home, which must exit with this code, and returns what it prints.
func (u *user) shell(t *testing.T, code int, line string, env ...string) string {
	t.Helper()
	return output(t, u.home, u.env(env...), code, "/bin/sh", "-c", line)
}

// script writes an executable script into the user's home.
func (u *user) script(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(u.home, name)
	testkit.Must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700)) //nolint:gosec // a script
}

// logs returns what the scripts have written to the file log since the last call.
func (u *user) logs(t *testing.T) string {
	t.Helper()
	path := filepath.Join(u.home, "log")
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	testkit.Must(t, err)
	testkit.Must(t, os.Remove(path))
	return string(text)
}

// start runs a program in the user's home until the test ends or end is called. Its output is in the file NAME.out.
// End returns its exit code.
func (u *user) start(t *testing.T, env []string, name string, args ...string) (out string, end func() int) {
	t.Helper()
	out = filepath.Join(t.TempDir(), name+".out")
	file, err := os.Create(out)
	testkit.Must(t, err)
	defer file.Close()
	cmd := exec.Command(filepath.Join(u.bin, name), args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = u.home, env, file, file
	testkit.Must(t, cmd.Start())
	ended := false
	end = func() int {
		if !ended {
			ended = true
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
			if t.Failed() {
				t.Logf("%v printed:\n%s", cmd.Args, read(t, out))
			}
		}
		return cmd.ProcessState.ExitCode()
	}
	t.Cleanup(func() { end() })
	return out, end
}

// hold takes a lock until release is called.
func (u *user) hold(t *testing.T, name string, env ...string) (release func()) {
	t.Helper()
	_, end := u.start(t, u.env(env...), "holdfast", "run", name, "--", "sleep", "600")
	u.shell(t, 0, "holdfast wait --held --timeout 60 '"+name+"'", env...)
	return func() { end() }
}

// output runs a program, which must exit with this code, and returns what it prints.
func output(t *testing.T, dir string, env []string, code int, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*testkit.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		t.Fatalf("%v: %v, and not code %d. It printed:\n%s", cmd.Args, err, code, out)
	}
	return string(out)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	testkit.Must(t, err)
	return string(text)
}

// block returns the code block of a page that is in this language and contains this text.
func (u *user) block(t *testing.T, page, language, text string) string {
	t.Helper()
	blocks := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(
		read(t, filepath.Join(u.clone, page)), -1)
	for _, b := range blocks {
		if strings.Contains(b[1], text) {
			return b[1]
		}
	}
	t.Fatalf("%s has no block in %s with %s", page, language, text)
	return ""
}

// line returns the line of a block that contains this text.
func line(t *testing.T, block, text string) string {
	t.Helper()
	for line := range strings.Lines(block) {
		if strings.Contains(line, text) {
			return strings.TrimSpace(line)
		}
	}
	t.Fatalf("no line has %s:\n%s", text, block)
	return ""
}

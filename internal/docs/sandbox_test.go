//go:build unix

package docs_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// programs is a folder that is removed after all tests.
var programs string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "holdfast-docs-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		programs = dir
		return m.Run()
	}())
}

// holdfast builds the command, and returns its path.
var holdfast = sync.OnceValues(func() (string, error) {
	path := filepath.Join(programs, "holdfast")
	out, err := exec.Command("go", "build", "-o", path, "../../cmd/holdfast").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return path, nil
})

// A sandbox is the folder in which the script of a block runs. It is its HOME and all of its PATH.
type sandbox struct {
	dir      string
	recorder string // the folder of a program holdfast that only records its arguments
}

// newSandbox returns a sandbox with holdfast, tools and stubs.
func newSandbox(t *testing.T) *sandbox {
	t.Helper()
	path, err := holdfast()
	testkit.Must(t, err)
	box := &sandbox{dir: t.TempDir(), recorder: t.TempDir()}
	testkit.Must(t, os.Symlink(path, filepath.Join(box.dir, "holdfast")))
	for _, tool := range tools {
		if path, err := exec.LookPath(tool); err == nil {
			testkit.Must(t, os.Symlink(path, filepath.Join(box.dir, tool)))
		}
	}
	for _, name := range stubs {
		box.addStub(t, name)
	}
	testkit.Must(t, os.Mkdir(box.calls(), 0o700))
	writeProgram(t, filepath.Join(box.recorder, "holdfast"), `printf '%s\0' "$@" >"${0%/*}/calls/$LINE-$$"`)
	return box
}

// calls returns the folder with the recorded calls of holdfast: one file for each, with the line of the page in its
// name.
func (box *sandbox) calls() string { return filepath.Join(box.recorder, "calls") }

// addStub adds a program that only reads its input, unless there is one of this name.
func (box *sandbox) addStub(t *testing.T, name string) {
	t.Helper()
	path := filepath.Join(box.dir, name)
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		writeProgram(t, path, "cat >/dev/null")
	}
}

func writeProgram(t *testing.T, path, script string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700)) //nolint:gosec // it is executed
}

// folders are those of this machine that pages name. The sandbox takes their place.
var folders = regexp.MustCompile(`/usr/local/bin|/opt/jobs|/var/lock`)

// namedFile finds the files of a sandbox that a block names by a path.
var namedFile = regexp.MustCompile(`(?:\.|` + folders.String() + `)/([\w.-]+)`)

// run runs a script, and returns its report and its output.
func (box *sandbox) run(t *testing.T, s *script) (report, out string) {
	t.Helper()
	text := strings.Join(s.lines, "\n") + "\n"
	for _, m := range namedFile.FindAllStringSubmatch(text, -1) {
		box.addStub(t, m[1])
	}
	text = folders.ReplaceAllLiteralString(text, box.dir)
	file := func(name string) string { return filepath.Join(box.recorder, name) }
	root, err := filepath.Abs(root)
	testkit.Must(t, err)
	prelude, err := filepath.Abs(filepath.Join("testdata", "prelude.sh"))
	testkit.Must(t, err)
	env := []string{
		"PATH=" + box.dir, "HOME=" + box.dir, "ROOT=" + root, "REPORT=" + file("report"), "RECORDER=" + box.recorder,
		"OUTSIDE_PATH=" + os.Getenv("PATH"), "OUTSIDE_HOME=" + os.Getenv("HOME"),
		"BASH_ENV=" + prelude,
	}
	if s.redis {
		server := servers.Redis(t)
		_, port, err := net.SplitHostPort(server.Addr())
		testkit.Must(t, err)
		text = redisURLs.ReplaceAllLiteralString(text, "redis://"+server.Addr())
		env = append(env, "REDIS_PORT="+port)
	}
	testkit.Must(t, os.WriteFile(file("script"), []byte(text), 0o700)) //nolint:gosec // it may run "$0"

	ctx, cancel := context.WithTimeout(t.Context(), 10*testkit.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", file("script"))
	cmd.Dir = box.dir
	cmd.Env = slices.Concat(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "HOLDFAST_") || strings.HasPrefix(v, "XDG_STATE_HOME=")
	}), env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = testkit.Patience
	printed, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Errorf("the block did not end: %v", err)
	}
	result, err := os.ReadFile(file("report"))
	if !errors.Is(err, os.ErrNotExist) {
		testkit.Must(t, err)
	}
	return string(result), string(printed)
}

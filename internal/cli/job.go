package cli

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// A job is the command of a run that holds its locks. How the command is run depends on the system: see job_unix.go
// and job_windows.go.
type job struct {
	*run
	path    string
	env     []string
	files   [3]*os.File
	watch   *watch
	signals chan os.Signal // received by holdfast while the command runs
}

// reportLost reports that the command must end, and why.
func (j *job) reportLost() {
	names := make([]string, len(j.names))
	for i, n := range j.names {
		names[i] = store.Shown(n)
	}
	why := j.watch.why
	if e, ok := errors.AsType[*holdfast.Error](why); ok {
		why = e.Err // the names are added below
	}
	lost := &holdfast.Error{Op: "lost " + strings.Join(names, ", "), Store: j.watch.store, Err: why}
	j.app.logf("%v; the command must end", lost)
}

// lookUp returns the path of the command's file.
func lookUp(command string) (string, error) {
	path, err := exec.LookPath(command)
	if err != nil && !errors.Is(err, exec.ErrDot) { // a . in PATH is respected, as shells do
		return "", cannotStart(command, err)
	}
	return path, nil
}

// cannotStart returns the error of a command that did not start, with the exit code that shells use.
func cannotStart(command string, err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitWith(exitNoFile, "%s: command not found", shown(command))
	}
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		err = e
	}
	return exitWith(exitNoExec, "%s: cannot be executed: %w", shown(command), err)
}

// files returns the files that the command inherits as its input and output.
func (a *app) files() (files [3]*os.File, err error) {
	for i, stream := range []any{a.stdin, a.stdout, a.stderr} {
		var ok bool
		if files[i], ok = stream.(*os.File); !ok {
			return files, usageError("a command can only be run on files")
		}
	}
	return files, nil
}

package cli

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// lookUp finds the command's file.
func lookUp(command string) (string, error) {
	path, err := exec.LookPath(command)
	if err != nil && !errors.Is(err, exec.ErrDot) { // whoever has . in his PATH means it
		return "", cannotStart(command, err)
	}
	return path, nil
}

// cannotStart is the error of a command that did not come to run, with the code that shells use.
func cannotStart(command string, err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitWith(exitNoFile, "%s: command not found", shown(command))
	}
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		err = e
	}
	return exitWith(exitNoExec, "%s: cannot be executed: %w", shown(command), err)
}

// files are what the command inherits as its input and output.
func (a *app) files() (files [3]*os.File, err error) {
	for i, stream := range []any{a.stdin, a.stdout, a.stderr} {
		var ok bool
		if files[i], ok = stream.(*os.File); !ok {
			return files, usageError("a command can only be run on files")
		}
	}
	return files, nil
}

// Package cli is the command holdfast, one file for each of its commands. Main is all of it; the rest is inside so that
// tests can run commands without a process around them.
package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// An app is one run of the program: what its commands share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	args      []string
	storeURL  string // --store
	inProcess bool   // memory: is good enough for run, since all is one process: a test
	last      func() // what is left to do when all else is done, or nil
	journal   journal
	silent    bool // warnings are not written either: the command was skipped
}

// Main runs the command line and returns the exit code. See exit.go for what it can be.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	a.journal.write = func(line string) { a.say("%s", line) }
	slog.SetDefault(slog.New(&a.journal))
	code := a.run(context.Background(), args)
	if code == 0 && !a.silent {
		a.journal.opened()
	}
	if a.last != nil {
		a.last()
	}
	return code
}

// run runs one command line.
func (a *app) run(ctx context.Context, args []string) int {
	a.args = args
	root := newRoot(a)
	if slices.Contains(args, cobra.ShellCompRequestCmd) {
		plainUsage(root)
	}
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := argumentError(root.ExecuteContext(ctx))
	if err != nil && err.Error() != "" {
		a.say("%v", err)
	}
	return exitCode(err)
}

// say writes one line for people to stderr, which begins with the program's name.
func (a *app) say(format string, args ...any) {
	line := strings.TrimSpace(fmt.Errorf(format, unprefixed(args)...).Error())
	fmt.Fprintln(a.stderr, "holdfast:", printable.Line(line))
}

// A bareError is an error of the library, or several, without the prefix: say has written the program's name.
type bareError struct{ error }

func (e bareError) Error() string {
	lines := strings.Split(e.error.Error(), "\n") // of errors.Join
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "holdfast: ")
	}
	return strings.Join(lines, "; ")
}

func (e bareError) Unwrap() error { return e.error }

// unprefixed is args for a format, with errors that have no prefix of their own.
func unprefixed(args []any) []any {
	all := slices.Clone(args)
	for i, arg := range all {
		if err, ok := arg.(error); ok {
			all[i] = bareError{err}
		}
	}
	return all
}

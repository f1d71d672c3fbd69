// Package cli implements the command holdfast, with one file for each of its subcommands. Main is its entry. It is a
// package so that tests can run commands without starting a process.
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

// An app is one run of the program. It has what the commands share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	args      []string
	storeURL  string // --store
	inProcess bool   // run accepts the store memory:, since a test runs all in one process
	last      func() // called last, after all else is done; may be nil
	journal   journal
	silent    bool // warnings of the store are not written
}

// Main runs the command line and returns the exit code. The exit codes are in exit.go.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	a.journal.write = func(line string) { a.logf("%s", line) }
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
		a.logf("%v", err)
	}
	return exitCode(err)
}

// logf writes one line to stderr. It begins with the program's name.
func (a *app) logf(format string, args ...any) {
	line := strings.TrimSpace(fmt.Errorf(format, unprefixed(args)...).Error())
	fmt.Fprintln(a.stderr, "holdfast:", printable.Line(line))
}

// A bareError is an error of the library, or several of them, without the prefix "holdfast: ", which logf writes.
type bareError struct{ error }

func (e bareError) Error() string {
	lines := strings.Split(e.error.Error(), "\n") // of errors.Join
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "holdfast: ")
	}
	return strings.Join(lines, "; ")
}

func (e bareError) Unwrap() error { return e.error }

// unprefixed returns the arguments of a format with each error as a bareError.
func unprefixed(args []any) []any {
	all := slices.Clone(args)
	for i, arg := range all {
		if err, ok := arg.(error); ok {
			all[i] = bareError{err}
		}
	}
	return all
}

package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
)

// Holdfast's own exit codes. They are those of sysexits.h where it has one for the purpose.
const (
	exitNotHeld  = 1   // show, break: the lock is not held
	exitUsage    = 64  // EX_USAGE
	exitStore    = 69  // EX_UNAVAILABLE
	exitBusy     = 75  // EX_TEMPFAIL, unless --busy-exit sets another
	exitLost     = 79  // above those of sysexits.h
	exitViolated = 80  // likewise
	exitNoExec   = 126 // as shells do
	exitNoFile   = 127 // as shells do
	exitSignaled = 128 // and the signal's number
)

// exitCodes is the table in the help. docs/cli.md has the same one; a test compares them.
var exitCodes = []struct{ code, meaning string }{
	{"0-255", "run, elect: what the command exited with"},
	{"128+n", "run, elect: signal n ended the command, or the wait for the lock; wait: likewise"},
	{"1", "show, break: not held; break: the answer was no; demo, lab: failed; doctor --strict: warned"},
	{"64", "called wrongly: flags, names, the store's URL, or a use of the lock that does not fit"},
	{"69", "the store failed: unreachable, refused, broken, no majority, not fit; verify, lab: not run"},
	{"75", "run, elect, acquire, wait: it is taken (run: or the code of --busy-exit; 0 with --skip)"},
	{"79", "run, elect --once: lost while the command ran; renew, release: lost before"},
	{"80", "verify: a lock did not hold"},
	{"126", "run, elect: the command cannot be executed"},
	{"127", "run, elect: the command was not found"},
}

// An exitError ends the program with a code. If its text is empty, nothing is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exitWith returns an error that ends the program with this code.
func exitWith(code int, format string, args ...any) error {
	return &exitError{code, fmt.Errorf(format, unprefixed(args)...)}
}

// coded returns err with an exit code, unless it is nil or has one.
func coded(code int, err error) error {
	if _, has := errors.AsType[*exitError](err); err == nil || has {
		return err
	}
	return &exitError{code, err}
}

// usageError returns an error about how holdfast was called.
func usageError(format string, args ...any) error { return exitWith(exitUsage, format, args...) }

// wrongUse are the errors of the library whose cause is how holdfast was called.
var wrongUse = []error{
	holdfast.ErrBadName, holdfast.ErrBadTTL, holdfast.ErrBadUnits, holdfast.ErrBadOption, holdfast.ErrMismatch,
	holdfast.ErrUnsupported, holdfast.ErrReentered, holdfast.ErrUpgrade, holdfast.ErrBadDetached,
}

// exitCode returns the code that the program ends with. An error that has no code and is not from the library is
// cobra's: an unknown command or argument.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	switch _, ofLibrary := errors.AsType[*holdfast.Error](err); {
	case slices.ContainsFunc(wrongUse, func(wrong error) bool { return errors.Is(err, wrong) }):
		return exitUsage
	case errors.Is(err, holdfast.ErrLocked), errors.Is(err, holdfast.ErrDeadlock):
		return exitBusy
	case errors.Is(err, holdfast.ErrNotHeld):
		return exitNotHeld
	case ofLibrary:
		return exitStore
	}
	return exitUsage
}

// argumentError returns err without arguments that may be a URL with a password. Errors of cobra repeat arguments, as
// of holdfast -store=URL.
func argumentError(err error) error {
	_, own := errors.AsType[*exitError](err)
	_, ofLibrary := errors.AsType[*holdfast.Error](err)
	if err == nil || own || ofLibrary {
		return err
	}
	text := err.Error()
	if strings.HasPrefix(text, "unknown shorthand flag") {
		text, _, _ = strings.Cut(text, "=")
	}
	if mayBeURL(text) {
		text = "an argument is not understood; it is not repeated here, because it may contain a password; " +
			"a store is given as --store URL"
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

// repeated returns an argument that is not understood, for a message, unless it may be a URL with a password.
func repeated(argument string) string {
	if mayBeURL(argument) {
		return "the argument"
	}
	return shown(argument)
}

// mayBeURL reports whether a text may contain a store's URL.
func mayBeURL(text string) bool { return strings.Contains(text, "@") || strings.Contains(text, ":/") }

// newExitCodes returns a help topic: holdfast help exit-codes.
func newExitCodes(*app) *cobra.Command {
	var b strings.Builder
	b.WriteString("The exit codes of holdfast:\n\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&b, "  %-6s %s\n", e.code, e.meaning)
	}
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "The exit codes of holdfast",
		Long:  strings.TrimSuffix(b.String(), "\n"),
	}
}

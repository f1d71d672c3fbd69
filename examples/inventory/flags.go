package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"strings"
)

// A usageError says that the program was called wrongly.
type usageError struct {
	command string // empty: the program as a whole
	problem string
}

// Error says what is wrong, and where to read what is right.
func (e *usageError) Error() string {
	if e.command == "" {
		return e.problem + " (see inventory --help)"
	}
	return fmt.Sprintf("%s: %s (see inventory %s --help)", e.command, e.problem, e.command)
}

// newFlags makes the flags of a command. Its help is the text about it, an example, and the flags.
func newFlags(name, about, example string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.Usage = func() {
		fmt.Fprintf(fs.Output(), "%s\n\nExample:\n  %s\n\nFlags:\n", about, strings.ReplaceAll(example, "\n", "\n  "))
		fs.PrintDefaults()
	}
	return fs
}

// parse reads a command's arguments. Asked for help, it writes it to out and returns flag.ErrHelp.
func parse(fs *flag.FlagSet, args []string, out io.Writer) error {
	help := fs.Usage
	fs.Usage = func() {} // a mistake gets one line, not a page
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fs.SetOutput(out)
		help()
		return err
	case err != nil:
		return &usageError{fs.Name(), err.Error()}
	case fs.NArg() > 0:
		return &usageError{fs.Name(), fmt.Sprintf("unexpected argument %q", fs.Arg(0))}
	}
	return nil
}

// atLeast checks a flag that counts something.
func atLeast(fs *flag.FlagSet, name string, got, least int) error {
	if got < least {
		return &usageError{fs.Name(), fmt.Sprintf("--%s must be at least %d", name, least)}
	}
	return nil
}

// baseURL checks a flag that says where a server is, and takes the slash off its end.
func baseURL(fs *flag.FlagSet, name, raw string) (string, error) {
	if raw == "" {
		return "", &usageError{fs.Name(), "--" + name + " is missing"}
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", &usageError{fs.Name(), fmt.Sprintf("--%s: %q is no URL like http://127.0.0.1:8080", name, raw)}
	}
	return strings.TrimSuffix(raw, "/"), nil
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == workerArg {
		if err := workerMain(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// A usageError is a command line that makes no sense.
type usageError struct{ error }

var errFaults = errors.New("something failed, or Holdfast did what must not be: see above")

// command is the whole program but for its exit status. The report goes to out, what happens meanwhile to progress.
func command(ctx context.Context, args []string, out, progress io.Writer) error {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	quick := fs.Bool("quick", false, "a run of less than a minute, to see that all works; its numbers say little")
	rounds := fs.Int("rounds", 0, "how often everything is measured, `N` times (default 5, with --quick 1)")
	cases := fs.String("cases", ".", "measure the cases whose name matches this `regexp`")
	names := fs.String("contestants", ".", "measure the contestants whose name matches this `regexp`")
	file := fs.String("json", "", "write everything, every round too, to this `file`")
	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		_, err := io.WriteString(out, help(fs))
		return err
	}
	if err == nil && fs.NArg() > 0 {
		err = fmt.Errorf("what is %q? There are only flags: see --help", fs.Arg(0))
	}
	if err != nil {
		return &usageError{err}
	}
	p, err := parsePlan(*quick, *rounds, *cases, *names)
	if err != nil {
		return &usageError{err}
	}
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintf(progress, format, args...) // who cannot hear it misses nothing
	}
	say("This takes about %v. Ctrl-C ends it and shows what there is.\n", p.takes().Round(time.Second))
	r, stopped := p.run(ctx, say)
	if r == nil {
		return stopped
	}
	if _, err := io.WriteString(out, r.describe()+r.tables()); err != nil {
		return err
	}
	if *file != "" {
		if err := r.writeJSON(*file); err != nil {
			return err
		}
	}
	if stopped != nil {
		return stopped
	}
	if !r.ok() {
		return errFaults
	}
	return nil
}

func parsePlan(quick bool, rounds int, cases, names string) (*plan, error) {
	switch {
	case rounds < 0:
		return nil, fmt.Errorf("--rounds %d: it cannot be negative", rounds)
	case rounds == 0 && quick:
		rounds = 1
	case rounds == 0:
		rounds = 5
	}
	byCase, err := regexp.Compile(cases)
	if err != nil {
		return nil, fmt.Errorf("--cases: %w", err)
	}
	byName, err := regexp.Compile(names)
	if err != nil {
		return nil, fmt.Errorf("--contestants: %w", err)
	}
	return newPlan(quick, rounds, byCase, byName)
}

func help(fs *flag.FlagSet) string {
	out := &strings.Builder{}
	out.WriteString(`Bench measures Holdfast beside other locks, in interleaved rounds, on servers that it starts itself.

  go -C bench run . --quick
  go -C bench run . --json /tmp/bench.json
  go -C bench run . --cases '^names$' --contestants '^(raw|holdfast|rueidislock)$'

Flags:
`)
	fs.VisitAll(func(f *flag.Flag) {
		argument, about := flag.UnquoteUsage(f)
		fmt.Fprintf(out, "  %-22s %s\n", "--"+f.Name+" "+argument, about)
	})
	out.WriteString("\nCases:\n")
	for _, w := range workloads(false) {
		fmt.Fprintf(out, "  %-16s %s\n", w.Name, w.describe())
	}
	out.WriteString("\nContestants (README.md says how each is set up):\n")
	for _, c := range contestants {
		fmt.Fprintf(out, "  %-16s %s, on %s\n", c.name, c.role, c.on.name)
	}
	return out.String()
}

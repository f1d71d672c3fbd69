package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
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
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		if errors.As(err, new(*usageError)) {
			os.Exit(2)
		}
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
	var f flags
	f.define(fs)
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
	if f.from != "" {
		return redraw(f.from, f.charts)
	}
	p, err := f.plan()
	if err != nil {
		return &usageError{err}
	}
	p.command = asTyped(fs)
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintf(progress, format, args...) // who cannot hear it misses nothing
	}
	p.leaveOut(say)
	say("This takes about %v. Ctrl-C ends it and shows what there is.\n", p.takes().Round(time.Second))
	r, stopped := p.run(ctx, say)
	if r == nil {
		return stopped
	}
	if _, err := io.WriteString(out, r.describe()+r.tables()); err != nil {
		return err
	}
	if f.file != "" {
		if err := r.writeJSON(f.file); err != nil {
			return err
		}
	}
	if f.charts != "" {
		run := r.json()
		if err := run.drawCharts(f.charts); err != nil {
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

// redraw draws the charts of an earlier run.
func redraw(file, dir string) error {
	if dir == "" {
		return &usageError{errors.New("--from is for drawing: it needs --charts")}
	}
	run, err := readJSON(file)
	if err != nil {
		return err
	}
	return run.drawCharts(dir)
}

func help(fs *flag.FlagSet) string {
	out := &strings.Builder{}
	out.WriteString(
		`Bench measures Holdfast beside other locks, in interleaved rounds, on servers that it starts itself.

  go -C bench run . --quick
  go -C bench run . --json /tmp/bench.json --charts /tmp
  go -C bench run . --from /tmp/bench.json --charts /tmp
  go -C bench run . --cases '^names$' --contestants '^(raw|holdfast|rueidislock)$'
  go -C bench run . --store redis,redis-sentinel,redis-cluster --contestants '^(raw|holdfast)'
  go -C bench run . --store redis-masters --cases '^(one|work|stopped)$'
  go -C bench run . --store etcd --nodes 3
  go -C bench run . --store postgres,mariadb
  go -C bench run . --store zookeeper
  go -C bench run . --store consul --nodes 3

Flags:
`,
	)
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
		fmt.Fprintf(out, "  %-24s %s, on %s\n", c.name, c.role, c.on.name)
	}
	return out.String()
}

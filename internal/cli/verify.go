package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/report"
	"github.com/holdfast-go/holdfast/lab/verify"
	"github.com/holdfast-go/holdfast/store"
)

// A verification has the flags of verify.
type verification struct {
	plan   verify.Plan
	report string
	asJSON bool
}

func newVerify(a *app) *cobra.Command {
	v := &verification{}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Try to break the locks of a store, and report whether they held",
		Long: `Try to break the locks of a store, and report whether they held.

Worker processes use all kinds of locks, and record when they believed to hold them. Meanwhile they
are paused for longer than their leases last, killed, cut off from the store and starved. In the end
the records are checked: whether two workers ever held one lock at once, whether tokens rose,
whether locks were granted in order of arrival, whether a register behind a fence lost an update,
and whether anything was left behind.

Faults are injected into the workers and their own connections only, never into the servers of the
store. All names begin with ` + verify.Prefix + `, and nothing of them is left afterwards. With
--own-servers it starts servers of its own in place of a store, and breaks those too. They must be
installed:
` + siteKinds() + `

The same seed makes the same schedule of faults. It exits with 0 if everything held, with 80 if
something did not, and with 69 if it could not be run or if too little could be checked.`,
		Example: `  holdfast verify
  holdfast verify --store redis://127.0.0.1:6379 --time 2m --report run.html
  holdfast verify --store postgres://localhost/app --seed 7 --faults pause,kill
  holdfast verify --own-servers etcd --time 3m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("seed") {
				v.plan.Seed = rand.Uint64N(1 << 32) //nolint:gosec // any will do
			}
			return a.verify(cmd.Context(), v)
		},
	}
	flags := flagsInOrder(cmd)
	flags.DurationVar(&v.plan.Time, "time", 30*time.Second, "for how long faults are injected")
	flags.Uint64Var(&v.plan.Seed, "seed", 0, "of the schedule of faults (default: another one each time)")
	flags.IntVar(&v.plan.Workers, "workers", 4, "how many processes use locks")
	flags.StringSliceVar(&v.plan.Faults, "faults", nil,
		"only these `KINDS` of faults (default: all that the store promises to survive)")
	flags.StringVar(&v.plan.Servers, "own-servers", "", "start servers of this `KIND`, and break those too")
	flags.StringVar(&v.report, "report", "",
		"write a report to `FILE`: HTML, or SVG, JSON or text if it ends in .svg, .json or .txt")
	flags.BoolVar(&v.asJSON, "json", false, "write JSON in place of text")
	cmd.AddCommand(a.newProcess("worker", "One process of verify, started by verify", exitStore, verify.Work))
	return cmd
}

// siteKinds returns the list of servers that verify can start, one line each.
func siteKinds() string {
	var b strings.Builder
	for _, k := range verify.SiteKinds() {
		fmt.Fprintf(&b, "\n  %-10s %s", k.Name, k.About)
	}
	return b.String()
}

// verify runs a verification until it is over or a signal ends it, and writes its report.
func (a *app) verify(ctx context.Context, v *verification) error {
	self, err := os.Executable()
	if err != nil {
		return exitWith(exitStore, "verify cannot find its own program, which its workers run: %w", err)
	}
	at, err := a.completePlan(&v.plan)
	if err != nil {
		return err
	}
	if err := v.createReport(); err != nil {
		return err
	}
	v.plan.Command = func() *exec.Cmd { return exec.Command(self, "verify", "worker") }
	v.plan.Again = v.again(at)
	shows := newProgress(a.stderr, v.plan.Time)
	v.plan.Tell = shows.show

	running, stop, end := listenTo(ctx, endingSignals)
	defer end()
	run, err := verify.Run(running, &v.plan)
	sig := stop()
	shows.end()
	if run != nil {
		err = errors.Join(a.reportOf(run, v), v.outcome(run, err))
	}
	if sig != nil && (run == nil || run.Violations() == 0) {
		return exitWith(exitSignal(sig), "verify was ended by a signal: %v", sig)
	}
	return verifyError(err)
}

// completePlan sets the store of the plan, unless it has servers of its own, and checks the plan.
func (a *app) completePlan(p *verify.Plan) (at store.Location, err error) {
	switch {
	case p.Servers != "" && a.storeURL != "":
		return at, usageError("--own-servers starts servers in place of a store; leave out --store")
	case p.Servers == "":
		if at, err = a.locateToWrite(); err != nil {
			return at, err
		}
		p.Store = a.rawStore(at)
	}
	if err := p.Check(); err != nil {
		return at, &exitError{exitUsage, err}
	}
	return at, nil
}

// again returns the command that repeats a run, without secrets.
func (v *verification) again(at store.Location) string {
	words := []string{"holdfast verify"}
	if v.plan.Servers != "" {
		words = append(words, "--own-servers", v.plan.Servers)
	} else {
		words = append(words, "--store", shellQuoted(at.String()))
	}
	words = append(words, "--time", v.plan.Time.String(), "--seed", fmt.Sprint(v.plan.Seed),
		"--workers", fmt.Sprint(v.plan.Workers))
	if len(v.plan.Faults) > 0 {
		words = append(words, "--faults", strings.Join(v.plan.Faults, ","))
	}
	return strings.Join(words, " ")
}

// shellQuoted returns a word quoted for a shell.
func shellQuoted(word string) string {
	if !strings.ContainsAny(word, "?&*'\"$ ;|<>()`\\") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// createReport creates the file of --report. It is created before a long run, so that the run is not in vain.
func (v *verification) createReport() error {
	if v.report == "" {
		return nil
	}
	file, err := os.Create(v.report)
	if err != nil {
		return usageError("the report cannot be written: %w", err)
	}
	return file.Close()
}

// reportOf writes the report of a run to stdout and to the file of --report.
func (a *app) reportOf(run *report.Run, v *verification) error {
	write := run.WriteText
	if v.asJSON {
		write = run.WriteJSON
	}
	err := write(a.stdout)
	if v.report == "" {
		return err
	}
	return errors.Join(err, writeRun(v.report, run))
}

// outcome returns the error that a run ends with, if any.
func (v *verification) outcome(run *report.Run, err error) error {
	switch {
	case run.Verdict() == report.Broken:
		return exitWith(exitViolated, "the locks did not hold: %s; repeat it with: %s",
			violations(run.Violations()), run.Command)
	case err != nil:
		return err
	case run.Verdict() == report.Undecided:
		return exitWith(exitStore, "no violation was found, but not everything could be checked: run it for longer")
	}
	return nil
}

func violations(n int) string {
	if n == 1 {
		return "1 violation"
	}
	return fmt.Sprintf("%d violations", n)
}

// verifyError returns err with the exit code of the program.
func verifyError(err error) error {
	if _, usage := errors.AsType[*verify.UsageError](err); usage {
		return coded(exitUsage, err)
	}
	if _, ofLibrary := errors.AsType[*holdfast.Error](err); ofLibrary {
		return err
	}
	return coded(exitStore, err)
}

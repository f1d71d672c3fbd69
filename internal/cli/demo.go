package cli

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/internal/demo"
)

// exitUnshown is the exit code of demo if a round did not show what it should.
const exitUnshown = 1

func newDemo(a *app) *cobra.Command {
	plan := &demo.Plan{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See processes oversell a stock, and see a lock and a fence stop it",
		Long: `Several processes sell one stock, in three rounds: without a lock, with a naive lock, and
with Holdfast and a fence. In each round one process is killed in the middle of a sale,
and one is stopped there until the others have overtaken it. A table at the end counts
what was sold, how much of it did not exist, and how often two processes sold at the same
time although each believed to hold the lock alone.

It needs no server and takes about ten seconds. With --store, Holdfast's locks are kept in
that store, under a name of the demo's own that is removed afterwards. HOLDFAST_STORE is
ignored. It exits with 0 if each round showed what it should, and with 1 if not.`,
		Example: `  holdfast demo
  holdfast demo --plain | tee demo.txt
  holdfast demo --items 500 --workers 8
  holdfast demo --store redis://127.0.0.1:6379`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demonstrate(cmd.Context(), plan) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&plan.Items, "items", 100, "how many items there are; more take longer")
	flags.IntVar(&plan.Workers, "workers", 4, "how many processes sell them")
	flags.BoolVar(&plan.Plain, "plain", false, "print plain lines, also on a terminal")
	cmd.AddCommand(&cobra.Command{
		Use:    "worker",
		Short:  "One process of the demo, started by the demo",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := demo.Work(cmd.Context(), a.stdin, a.stdout); err != nil {
				return &exitError{exitUnshown, err}
			}
			return nil
		},
	})
	return cmd
}

// demonstrate runs the demo until it is over or a signal ends it.
func (a *app) demonstrate(ctx context.Context, plan *demo.Plan) error {
	self, err := os.Executable()
	if err != nil {
		return exitWith(exitUnshown, "the demo cannot find its own program, which its workers run: %w", err)
	}
	plan.Store, plan.Out = a.storeURL, a.stdout
	plan.Command = func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, self, "demo", "worker") }
	if err := plan.Check(); err != nil {
		return &exitError{exitUsage, err}
	}
	signals := make(chan os.Signal, 1)
	notifyUnlessIgnored(signals, endingSignals)
	defer signal.Stop(signals)
	running, stop := listen(ctx, signals)
	err = demo.Run(running, plan)
	if sig := stop(); sig != nil && errors.Is(err, context.Canceled) {
		return exitWith(exitSignal(sig), "the demo was ended by a signal: %v", sig)
	}
	if err != nil {
		return &exitError{exitUnshown, err}
	}
	return nil
}

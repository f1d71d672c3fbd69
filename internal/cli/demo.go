package cli

import (
	"context"
	"io"
	"os"
	"os/exec"

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
	flags := flagsInOrder(cmd)
	flags.IntVar(&plan.Items, "items", 100, "how many items there are; more take longer")
	flags.IntVar(&plan.Workers, "workers", 4, "how many processes sell them")
	flags.BoolVar(&plan.Plain, "plain", false, "print plain lines, also on a terminal")
	cmd.AddCommand(a.newProcess("worker", "One process of the demo, started by the demo", exitUnshown, demo.Work))
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
	err = untilSignal(ctx, "the demo", func(ctx context.Context) error { return demo.Run(ctx, plan) })
	return coded(exitUnshown, err)
}

// newProcess returns the hidden command of a process that another command starts. It exits with code if do fails.
func (a *app) newProcess(
	use, short string, code int, do func(context.Context, io.Reader, io.Writer) error,
) *cobra.Command {
	return &cobra.Command{
		Use:    use,
		Short:  short,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return coded(code, do(cmd.Context(), a.stdin, a.stdout))
		},
	}
}

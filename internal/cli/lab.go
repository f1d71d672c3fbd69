package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/broken"
)

// exitUncaught is the exit code of lab if a broken lock was not caught, or Holdfast's did not pass.
const exitUncaught = 1

func newLab(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "See the classic broken locks break, and Holdfast's hold",
		Long: `The ladder of broken locks: locks as textbooks and blog posts describe them, each a rung with the
schedule that breaks it. Without a command they are listed. A rung that needs a server starts it, in
a temporary folder and on a port of its own; it must be installed. The others need nothing.`,
		Example: `  holdfast lab
  holdfast lab run blind-delete
  holdfast lab run --all`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError("%s %s is not known; write: %s run %s", cmd.CommandPath(), repeated(args[0]),
					cmd.CommandPath(), repeated(args[0]))
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return writeJSON(a.stdout, map[string]any{"rungs": newRungsJSON(broken.Rungs())})
			}
			return a.listRungs(broken.Rungs())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	cmd.AddCommand(newLabRun(a), a.newProcess("player", "One process of lab run, started by lab run", exitUncaught,
		func(ctx context.Context, in io.Reader, out io.Writer) error {
			a.silent = true
			return broken.Perform(ctx, in, out)
		}))
	return cmd
}

// A labRun has the flags of lab run.
type labRun struct {
	all    bool
	seed   uint64
	asJSON bool
	report string
}

func newLabRun(a *app) *cobra.Command {
	l := &labRun{}
	cmd := &cobra.Command{
		Use:   "run NAME...",
		Short: "Play the schedule that breaks a lock, and the same with Holdfast's",
		Long: `Play the schedule that breaks a lock, and the same schedule with Holdfast's lock. It prints what
should hold, what happened and when, which check found it, and what prevents it in Holdfast.

The order of the steps is enforced, not left to chance: messages are held back, processes are
stopped and killed, servers are killed and promoted. The seed varies what the schedule leaves open,
such as the length of a ttl, and every seed breaks the lock.

It exits with 0 if the broken lock was caught and Holdfast's passed, with 1 if not, and with 69 if a
server is missing.`,
		Example: `  holdfast lab run blind-delete
  holdfast lab run late-write zk-session --seed 7
  holdfast lab run redlock-restart --report restart.html
  holdfast lab run --all --json | jq '.rungs[] | {name, caught, passed}'`,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return rungNames(args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			rungs, err := l.choose(args)
			if err != nil {
				return err
			}
			return a.playAll(cmd.Context(), l, rungs)
		},
	}
	flags := flagsInOrder(cmd)
	flags.BoolVar(&l.all, "all", false, "play all of them")
	flags.Uint64Var(&l.seed, "seed", 1, "varies what a schedule leaves open")
	flags.BoolVar(&l.asJSON, "json", false, "write JSON")
	flags.StringVar(&l.report, "report", "",
		"write a report of the broken lock to `FILE`: HTML, or SVG, JSON or text if it ends in .svg, .json or .txt;\n"+
			"and that of Holdfast's beside it, with -holdfast in its name")
	return cmd
}

// rungNames returns the names of all rungs except these.
func rungNames(but []string) (names []string) {
	for _, r := range broken.Rungs() {
		if !slices.Contains(but, r.Name) {
			names = append(names, r.Name)
		}
	}
	return names
}

// choose returns the rungs of these names, or all with --all.
func (l *labRun) choose(names []string) ([]*broken.Rung, error) {
	switch {
	case l.all && len(names) > 0:
		return nil, usageError("--all plays all rungs; leave out their names")
	case l.all && l.report != "", len(names) > 1 && l.report != "":
		return nil, usageError("--report is for one rung")
	case l.all:
		return broken.Rungs(), nil
	case len(names) == 0:
		return nil, usageError("which rung? write: holdfast lab run NAME, or --all; holdfast lab lists them")
	}
	var rungs []*broken.Rung
	for _, name := range names {
		r, ok := broken.Find(name)
		if !ok {
			return nil, usageError("%s is not known; holdfast lab lists the rungs", repeated(name))
		}
		rungs = append(rungs, r)
	}
	return rungs, nil
}

// playAll plays rungs until all are played or a signal ends it.
func (a *app) playAll(ctx context.Context, l *labRun, rungs []*broken.Rung) error {
	self, err := os.Executable()
	if err != nil {
		return exitWith(exitUncaught, "the lab cannot find its own program, which its players run: %w", err)
	}
	a.silent = true // stores warn of what is done to their servers, which is the point
	lab := &broken.Lab{
		Command: func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, self, "lab", "player") },
	}
	return coded(exitUncaught, untilSignal(ctx, "the lab", func(ctx context.Context) error {
		return errors.Join(a.playEach(ctx, l, lab, rungs), lab.Close())
	}))
}

// playEach plays one rung after the other, and writes the outcome of each when it is over. Rungs whose server is
// missing are left out.
func (a *app) playEach(ctx context.Context, l *labRun, lab *broken.Lab, rungs []*broken.Rung) error {
	outcomes := []broken.OutcomeJSON{}
	var missing, wrong []string
	for i, r := range rungs {
		o, err := lab.Play(ctx, r, l.seed)
		if absent, ok := errors.AsType[*broken.MissingError](err); ok {
			a.logf("%v", absent)
			missing = append(missing, r.Name)
			continue
		}
		if err != nil {
			return err
		}
		if !o.Caught() || !o.Passed() {
			wrong = append(wrong, r.Name)
		}
		outcomes = append(outcomes, o.JSON())
		if !l.asJSON {
			if i > 0 {
				fmt.Fprintln(a.stdout)
			}
			if err := o.WriteText(a.stdout); err != nil {
				return err
			}
		}
		if err := l.writeReports(o); err != nil {
			return err
		}
	}
	if l.asJSON {
		if err := writeJSON(a.stdout, map[string]any{"rungs": outcomes}); err != nil {
			return err
		}
	}
	switch {
	case len(wrong) > 0:
		return exitWith(exitUncaught, "the broken lock was not caught, or Holdfast's did not pass: %s",
			strings.Join(wrong, ", "))
	case len(missing) > 0:
		return exitWith(exitStore, "not played, because a server is missing: %s", strings.Join(missing, ", "))
	}
	return nil
}

// writeReports writes the files of the flag --report.
func (l *labRun) writeReports(o *broken.Outcome) error {
	if l.report == "" {
		return nil
	}
	lock, holdfast := o.Reports()
	end := filepath.Ext(l.report)
	return errors.Join(writeRun(l.report, lock), writeRun(strings.TrimSuffix(l.report, end)+"-holdfast"+end, holdfast))
}

// listRungs writes one row for each rung.
func (a *app) listRungs(rungs []*broken.Rung) error {
	t := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tNAME\tNEEDS\tTHE BROKEN LOCK")
	for _, r := range rungs {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\n", r.Number, r.Name, needs(r), r.What)
	}
	return t.Flush()
}

// needs returns the servers that a rung needs, and whether they are missing.
func needs(r *broken.Rung) string {
	if len(r.Needs) == 0 {
		return "nothing"
	}
	text := strings.Join(r.Needs, ", ")
	for _, program := range r.Needs {
		if _, missing := servers.Missing(program); missing {
			text += " (missing)"
		}
	}
	return text
}

// A rungJSON is what lab --json writes of a rung.
type rungJSON struct {
	Number   int      `json:"number"`
	Name     string   `json:"name"`
	What     string   `json:"what"`
	Seen     string   `json:"seen"`
	Promise  string   `json:"promise"`
	Needs    []string `json:"needs"`
	Prevents string   `json:"prevents"`
}

func newRungsJSON(rungs []*broken.Rung) []rungJSON {
	all := []rungJSON{}
	for _, r := range rungs {
		needs := slices.Concat([]string{}, r.Needs)
		all = append(all, rungJSON{r.Number, r.Name, r.What, r.Seen, r.Promise, needs, r.Prevents})
	}
	return all
}

package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

func newShow(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show who holds a lock and who waits for it",
		Long: `Show who holds a lock and who waits for it, in order of arrival. It exits with 1 if nobody
holds the lock.`,
		Example: `  holdfast show backup
  holdfast show --json backup | jq -r '.holders[0].owner.host'`,
		Args:              oneName,
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.look(cmd.Context(), func(ctx context.Context, s *session) error {
				line, err := s.Inspect(ctx, args[0])
				switch {
				case err != nil:
					return err
				case asJSON:
					err = writeJSON(a.stdout, newLineJSON(line, time.Now()))
				default:
					err = writeLine(a.stdout, line, time.Now())
				}
				if err == nil && len(line.Holders()) == 0 {
					err = nobodyHolds(args[0])
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// oneName is for commands with one argument.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError("one name of a lock is needed, not %d arguments; write: %s NAME", len(args), cmd.CommandPath())
	}
	return nil
}

func nobodyHolds(name string) error {
	return exitWith(exitNobody, "nobody holds %s", store.Shown(name))
}

// writeLine writes a line for people.
func writeLine(w io.Writer, line holdfast.Queue, now time.Time) error {
	if len(line.Entries) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tWHO\tWHAT\tSINCE\tFOR\tLEFT\tTOKEN")
	for i, p := range line.Entries {
		place := "held"
		if !p.Held {
			place = fmt.Sprintf("waiting %d", i-len(line.Holders())+1)
		}
		since, held := sinceWhen(p, now)
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%v\t%s\n", place, shown(p.Owner.String()), what(p),
			since, held, rounded(p.Left), p.Token)
	}
	return t.Flush()
}

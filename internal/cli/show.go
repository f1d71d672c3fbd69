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
		Short: "Show the holders of a lock and the waiters",
		Long: `Show the holders of a lock and the waiters, in order of arrival. It exits with 1 if the lock is
not held.`,
		Example: `  holdfast show backup
  holdfast show --json backup | jq -r '.holders[0].owner.host'`,
		Args:              oneName,
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd.Context(), func(ctx context.Context, s *session) error {
				queue, err := s.Inspect(ctx, args[0])
				switch {
				case err != nil:
					return err
				case asJSON:
					err = writeJSON(a.stdout, newQueueJSON(queue, time.Now()))
				default:
					err = writeQueue(a.stdout, queue, time.Now())
				}
				if err == nil && len(queue.Holders()) == 0 {
					err = notHeld(args[0])
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// oneName checks the arguments of a command that has one name.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError("one name of a lock is needed, not %d arguments; write: %s NAME", len(args),
			cmd.CommandPath())
	}
	return nil
}

func notHeld(name string) error {
	return exitWith(exitNotHeld, "%s is not held", store.Shown(name))
}

// writeQueue writes a queue as a table.
func writeQueue(w io.Writer, queue holdfast.Queue, now time.Time) error {
	if len(queue.Entries) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tOWNER\tMODE\tSINCE\tFOR\tLEFT\tTOKEN")
	for i, e := range queue.Entries {
		status := "held"
		if !e.Held {
			status = fmt.Sprintf("waiting %d", i-len(queue.Holders())+1)
		}
		since, held := sinceWhen(e, now)
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%v\t%s\n", status, shown(e.Owner.String()), mode(e),
			since, held, rounded(e.Left), e.Token)
	}
	return t.Flush()
}

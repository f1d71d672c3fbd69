package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

func newLs(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ls [PREFIX]",
		Aliases: []string{"list"},
		Short:   "List the locks that are held or waited for",
		Long:    `List the locks that are held or waited for, or those of them whose name begins with PREFIX.`,
		Example: `  holdfast ls
  holdfast ls deploy/
  holdfast ls --json | jq -r '.locks[].name'`,
		Args:              atMostOnePrefix,
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd.Context(), func(ctx context.Context, s *session) error {
				return a.list(ctx, s, strings.Join(args, ""), asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// atMostOnePrefix checks arguments.
func atMostOnePrefix(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError("%s takes one prefix, not %d arguments", cmd.Name(), len(args))
	}
	return nil
}

// list writes the queues of all names with this prefix.
func (a *app) list(ctx context.Context, s *session, prefix string, asJSON bool) error {
	queues, skipped, err := s.queues(ctx, prefix)
	if err != nil {
		return err
	}
	if n := len(skipped); n == 1 {
		a.logf("1 name was skipped: %v", skipped[0])
	} else if n > 1 {
		a.logf("%d names were skipped, the first: %v", n, skipped[0])
	}
	now := time.Now()
	if !asJSON {
		return writeQueues(a.stdout, queues, now)
	}
	list := listJSON{s.abilities.Store, make([]queueJSON, len(queues))}
	for i, queue := range queues {
		list.Locks[i] = newQueueJSON(queue, now)
	}
	return writeJSON(a.stdout, list)
}

// queues returns the queues of all names with this prefix, sorted by name. It leaves out queues that became empty
// meanwhile. A queue that can never be read is skipped, with the reason in skipped. If all are, queues fails.
func (s *session) queues(ctx context.Context, prefix string) (queues []holdfast.Queue, skipped []error, err error) {
	names, err := s.names(ctx, prefix)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		queue, err := s.Inspect(ctx, name)
		switch {
		case err != nil && !store.Final(err):
			return nil, nil, err
		case err != nil:
			if e, ok := errors.AsType[*holdfast.Error](err); ok {
				err = e.Err // without the call and the name
			}
			skipped = append(skipped, fmt.Errorf("%s: %w", shown(name), err))
		case len(queue.Entries) > 0:
			queues = append(queues, queue)
		}
	}
	if len(skipped) > 0 && len(skipped) == len(names) {
		return nil, nil, skipped[0]
	}
	return queues, skipped, nil
}

func (s *session) names(ctx context.Context, prefix string) ([]string, error) {
	var names []string
	for name, err := range s.Names(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// writeQueues writes one row for each queue.
func writeQueues(w io.Writer, queues []holdfast.Queue, now time.Time) error {
	if len(queues) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tHOLDER\tSINCE\tFOR\tWAITING")
	for _, queue := range queues {
		holder, since, held := "-", "-", "-"
		if holders := queue.Holders(); len(holders) > 0 {
			first := holders[0]
			since, held = sinceWhen(first, now)
			holder = shown(first.Owner.String())
			if more := len(holders) - 1; more > 0 {
				holder += fmt.Sprintf(" and %d more", more)
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\n", shown(queue.Name), holder, since, held, len(queue.Waiters()))
	}
	return t.Flush()
}

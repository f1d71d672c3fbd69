package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

func newBreak(a *app) *cobra.Command {
	var token string
	var yes bool
	cmd := &cobra.Command{
		Use:   "break NAME",
		Short: "Take a lock away from its holder",
		Long: `Take a lock away from its holder, for operators. The next in line gets it at once, while the
old holder may still be at work until it learns of the loss. Make sure that it is dead, or that
what the lock protects checks fencing tokens.

It breaks the first holder, or with --token whoever has that token; one who waits loses its place
and queues again. It asks first. It exits with 1 if nobody holds the lock, or if the answer is no.`,
		Example: `  holdfast break backup
  holdfast break --yes backup
  holdfast break --token 446744073709 encoder`,
		Args:              oneName,
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes && !a.hasPerson() {
				return usageError("break asks before it breaks, and stdin is no terminal; give --yes if you are sure")
			}
			return a.look(cmd.Context(), func(ctx context.Context, s *session) error {
				line, err := s.Inspect(ctx, args[0])
				if err != nil {
					return err
				}
				place, err := choose(line, token)
				if err != nil {
					return err
				}
				return a.breakPlace(cmd.Context(), s, args[0], place, yes)
			})
		},
	}
	cmd.Flags().StringVar(&token, "token", "", "break the place with this `TOKEN`, as show has it")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// breakPlace breaks one place of a line, after a question unless yes.
func (a *app) breakPlace(ctx context.Context, s *session, name string, place holdfast.Entry, yes bool) error {
	holds := "holds"
	if !place.Held {
		holds = "waits for"
	}
	since, _ := sinceWhen(place, time.Now())
	found := fmt.Sprintf("%s %s %s since %s (token %s)", shown(place.Owner.String()), holds, shown(name), since, place.Token)
	if !yes && !a.confirm(found+". Break it?") {
		return exitWith(exitNobody, "not broken")
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin) // from now on: the answer may have taken its time
	defer cancel()
	err := s.Break(ctx, name, place.Token)
	if errors.Is(err, holdfast.ErrNotHeld) {
		return exitWith(exitNobody, "it was given back meanwhile")
	}
	if err == nil {
		fmt.Fprintln(a.stdout, "broken:", found)
	}
	return err
}

// choose finds whom to break.
func choose(line holdfast.Queue, token string) (holdfast.Entry, error) {
	if token == "" {
		if holders := line.Holders(); len(holders) > 0 {
			return holders[0], nil
		}
		return holdfast.Entry{}, nobodyHolds(line.Name)
	}
	t, err := holdfast.ParseToken(token)
	if err != nil {
		return holdfast.Entry{}, usageError("--token: %w", err)
	}
	i := slices.IndexFunc(line.Entries, func(p holdfast.Entry) bool { return p.Token == t })
	if i < 0 {
		return holdfast.Entry{}, exitWith(exitNobody, "nobody in the line of %s has the token %s", store.Shown(line.Name), token)
	}
	return line.Entries[i], nil
}

// hasPerson says whether somebody can be asked.
func (a *app) hasPerson() bool {
	f, ok := a.stdin.(*os.File)
	return ok && isTerminal(f)
}

// confirm asks a question. Only a yes is a yes.
func (a *app) confirm(question string) bool {
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(a.stdin).ReadString('\n') // what cannot be read is no yes
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

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
		Long: `Take a lock away from its holder, for operators. The next waiter acquires it at once, while the
old holder may still be at work until it learns of the loss. Make sure that it is dead, or that
what the lock protects checks fencing tokens.

It breaks the first holder's claim, or with --token the claim that has that token. A waiter whose
claim is broken joins the end of the queue. It asks for confirmation first. It exits with 1 if the
lock is not held, or if the answer is no.`,
		Example: `  holdfast break backup
  holdfast break --yes backup
  holdfast break --token 446744073709 encoder`,
		Args:              oneName,
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes && !a.canConfirm() {
				return usageError(
					"break asks for confirmation, and stdin is not a terminal; give --yes if you are sure")
			}
			return a.withStore(cmd.Context(), func(ctx context.Context, s *session) error {
				queue, err := s.Inspect(ctx, args[0])
				if err != nil {
					return err
				}
				entry, err := choose(queue, token)
				if err != nil {
					return err
				}
				return a.breakEntry(cmd.Context(), s, args[0], entry, yes)
			})
		},
	}
	cmd.Flags().StringVar(&token, "token", "", "break the claim with this `TOKEN`, as show prints it")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	return cmd
}

// breakEntry breaks one claim of a queue, after a confirmation unless yes.
func (a *app) breakEntry(ctx context.Context, s *session, name string, entry holdfast.Entry, yes bool) error {
	holds := "holds"
	if !entry.Held {
		holds = "waits for"
	}
	since, _ := sinceWhen(entry, time.Now())
	found := fmt.Sprintf("%s %s %s since %s (token %s)", shown(entry.Owner.String()), holds, shown(name), since,
		entry.Token)
	if !yes && !a.confirm(found+". Break it?") {
		return exitWith(exitNotHeld, "not broken")
	}
	ctx, cancel := context.WithTimeout(ctx, requestWithin) // counted from now: the confirmation may have taken long
	defer cancel()
	err := s.Break(ctx, name, entry.Token)
	if errors.Is(err, holdfast.ErrNotHeld) {
		return exitWith(exitNotHeld, "it was released meanwhile")
	}
	if err == nil {
		fmt.Fprintln(a.stdout, "broken:", found)
	}
	return err
}

// choose returns the claim to break: the first holder's, or the one with this token.
func choose(queue holdfast.Queue, token string) (holdfast.Entry, error) {
	if token == "" {
		if holders := queue.Holders(); len(holders) > 0 {
			return holders[0], nil
		}
		return holdfast.Entry{}, notHeld(queue.Name)
	}
	t, err := holdfast.ParseToken(token)
	if err != nil {
		return holdfast.Entry{}, usageError("--token: %w", err)
	}
	i := slices.IndexFunc(queue.Entries, func(e holdfast.Entry) bool { return e.Token == t })
	if i < 0 {
		return holdfast.Entry{}, exitWith(exitNotHeld, "no claim in the queue of %s has the token %s",
			store.Shown(queue.Name), token)
	}
	return queue.Entries[i], nil
}

// canConfirm reports whether stdin is a terminal, where a question can be answered.
func (a *app) canConfirm() bool {
	f, ok := a.stdin.(*os.File)
	return ok && isTerminal(f)
}

// confirm prints a question and reports whether the answer is y or yes.
func (a *app) confirm(question string) bool {
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(a.stdin).ReadString('\n') // an answer that cannot be read is not a yes
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// completeWithin bounds how long the Tab key asks the store.
const completeWithin = time.Second

func newCompletion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Write a script that completes commands, flags and names of locks in a shell",
		Example: `  source <(holdfast completion bash)
  holdfast completion zsh > "${fpath[1]}/_holdfast"
  holdfast completion fish > ~/.config/fish/completions/holdfast.fish
  holdfast completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError("which shell? write: holdfast completion bash, or zsh, fish, powershell")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch root := cmd.Root(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.stdout, true)
			case "zsh":
				return root.GenZshCompletion(a.stdout)
			case "fish":
				return root.GenFishCompletion(a.stdout, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(a.stdout)
			}
			return usageError("%s is not known; there are bash, zsh, fish and powershell", repeated(args[0]))
		},
	}
}

// completeName completes the one name that a command takes.
func (a *app) completeName(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeNames(cmd, begin)
}

// completeRun completes names before the --, and leaves what comes after it to the shell.
func (a *app) completeRun(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
	// Cobra parses with a -- of its own, so that it cannot be asked. The last argument is what is to be completed.
	if slices.Contains(a.args[:len(a.args)-1], "--") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.completeNames(cmd, begin)
}

// completeNames finds names in the store, if it answers in time.
func (a *app) completeNames(cmd *cobra.Command, begin string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	found := make(chan []string, 1)
	go func() {
		var names []string
		if s, err := a.open(ctx); err == nil {
			names, _ = s.names(ctx, begin)
			s.Close() //nolint:errcheck // it held nothing
		}
		found <- names
	}()
	select {
	case names := <-found:
		return names, cobra.ShellCompDirectiveNoFileComp
	case <-ctx.Done():
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

package cli

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completeWithin bounds how long a completion waits for the store.
const completeWithin = time.Second

func newCompletion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Write a shell script that completes commands, flags and names of locks",
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
				return writeBashCompletion(a.stdout, root)
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

// bashWords replaces _get_comp_words_by_ref of the package bash-completion, which cobra's script needs, where that
// package is not loaded. It sets cur, prev, words and cword of its caller, and joins words that bash split at = and :.
const bashWords = `
__holdfast_words()
{
    if declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref "$@"
        return
    fi
    local i n=0 word joins=0 rest=$COMP_LINE
    words=("")
    cword=0
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        word=${COMP_WORDS[i]}
        if ((i > 0)) && [[ $rest == [[:space:]]* ]]; then
            joins=0 # they are apart
        elif [[ -n $word && -z ${word//[=:]/} ]]; then
            joins=1
        fi
        if ((i > 0 && !joins)); then
            ((n += 1))
        fi
        words[n]+=$word
        if ((i <= COMP_CWORD)); then
            cword=$n
        fi
        [[ -n $word && -z ${word//[=:]/} ]] && joins=1 || joins=0
        rest=${rest#"${rest%%[![:space:]]*}"}
        rest=${rest#"$word"}
    done
    cur=${words[cword]}
    prev=
    if ((cword > 0)); then
        prev=${words[cword - 1]}
    fi
}
`

// writeBashCompletion writes cobra's script, changed to work without the package bash-completion.
func writeBashCompletion(w io.Writer, root *cobra.Command) error {
	var script bytes.Buffer
	if err := root.GenBashCompletionV2(&script, true); err != nil {
		return err
	}
	text := strings.Replace(script.String(), "    _get_comp_words_by_ref ", "    __holdfast_words ", 1)
	_, err := io.WriteString(w, text+bashWords)
	return err
}

// plainUsage removes the backquotes that pflag interprets from all usages. Completion shows usages unchanged.
func plainUsage(cmd *cobra.Command) {
	plain := func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") }
	cmd.Flags().VisitAll(plain)
	cmd.PersistentFlags().VisitAll(plain)
	for _, sub := range cmd.Commands() {
		plainUsage(sub)
	}
}

// completeName completes the name of a command that has one argument.
func (a *app) completeName(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeNames(cmd, begin)
}

// completeRun completes names before the --. The shell completes what comes after it.
func (a *app) completeRun(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
	// Cobra adds a -- of its own, so ArgsLenAtDash does not help. The last argument is the one to complete.
	if slices.Contains(a.args[:len(a.args)-1], "--") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.completeNames(cmd, begin)
}

// completeNames returns names in the store, or nothing if the store does not respond in time.
func (a *app) completeNames(cmd *cobra.Command, begin string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	found := make(chan []string, 1)
	go func() {
		var names []string
		if s, err := a.openToRead(ctx); err == nil {
			names, _ = s.names(ctx, begin)
			// The shell prints names unchanged, so those that are not printable are left out.
			names = slices.DeleteFunc(names, func(n string) bool { return shown(n) != n })
			s.Close() //nolint:errcheck // it held nothing
		}
		found <- names
	}()
	var names []string
	select {
	case names = <-found:
	case <-ctx.Done():
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

package cli

import (
	"github.com/spf13/cobra"
)

// newRoot is the command without a subcommand. A new command is one more line here.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Run commands under locks that many processes and machines share",
		Long: `Holdfast runs commands under locks that many processes and machines share.

A lock has a name, and lives in a store. Without --store that is a file of yours on
this machine. Whoever comes first has the lock; the others wait in line.`,
		Example: `  holdfast run backup -- rsync -a /data /backup
  holdfast ls
  holdfast show backup`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&a.storeURL, "store", "",
		"`URL` of the store (default: $HOLDFAST_STORE, else a file in your state folder)")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%v (see %s --help)", argumentError(err), cmd.CommandPath())
	})
	root.AddCommand(
		newRun(a),
		newLs(a),
		newShow(a),
		newBreak(a),
		newRedlock(a),
		newDemo(a),
		newVersion(a),
		newCompletion(a),
		newExitCodes(a),
	)
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}

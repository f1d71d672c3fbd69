package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// stores are the URLs in the help: every scheme that is registered. Of Valkey there is only one, since its other
// schemes are those of Redis.
var stores = []struct{ url, meaning string }{
	{"sqlite:PATH", "a file, for the processes of one machine"},
	{"redis://HOST:6379", "a Redis server"},
	{"rediss://HOST:6379", "the same with TLS"},
	{"redis+unix:///PATH", "the same over a Unix socket"},
	{"redis+sentinel://S1,S2,S3/NAME", "Redis with replicas, found by Sentinel"},
	{"rediss+sentinel://S1,S2,S3/NAME", "the same with TLS"},
	{"redis+cluster://H1,H2,H3", "a Redis Cluster"},
	{"rediss+cluster://H1,H2,H3", "the same with TLS"},
	{"valkey://HOST:6379", "a Valkey server, with all variants that redis:// has"},
	{"redlock://H1,H2,H3,H4,H5", "a majority of independent Redis masters"},
	{"redlocks://H1,H2,H3,H4,H5", "the same with TLS"},
	{"postgres://HOST/DATABASE", "a PostgreSQL database"},
	{"postgresql://HOST/DATABASE", "the same"},
	{"mysql://HOST/DATABASE", "a MySQL or MariaDB database"},
	{"mariadb://HOST/DATABASE", "the same"},
	{"etcd://H1,H2,H3", "etcd"},
	{"etcds://H1,H2,H3", "the same with TLS"},
	{"zk://H1,H2,H3", "ZooKeeper"},
	{"zks://H1,H2,H3", "the same with TLS"},
	{"consul://HOST:8500", "Consul; consul:///PATH over an agent's Unix socket"},
	{"consuls://HOST:8501", "the same with TLS"},
	{"memory:", "this process only, for tests of programs; not for run"},
}

// storeURLs returns the list of stores, one line each.
func storeURLs() string {
	var b strings.Builder
	for _, s := range stores {
		fmt.Fprintf(&b, "\n  %-32s %s", s.url, s.meaning)
	}
	return b.String()
}

// setStore sets the value of --store. It must not be empty: --store "$UNSET" would use the default file, while other
// processes use the store that was meant.
func (a *app) setStore(url string) error {
	if url == "" {
		return errors.New("it is empty; omit --store to use the default")
	}
	a.storeURL = url
	return nil
}

// Command returns the tree of commands, for its documentation. Main runs them.
func Command() *cobra.Command { return newRoot(&app{}) }

// newRoot returns the command holdfast with all its subcommands.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Run commands under locks that many processes and machines share",
		Long: `Holdfast runs commands under locks that many processes and machines share.

A lock has a name, and is kept in a store. Without --store that is a file of yours on
this machine: a lock between your own processes, not those of other users. The first
process acquires the lock; the others wait in a queue.

Stores are named by URL, and docs/cli.md describes each:
` + storeURLs(),
		Example: `  holdfast run backup -- rsync -a /data /backup
  holdfast ls
  holdfast show backup`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().Func("store",
		"`URL` of the store, see holdfast --help (default: $HOLDFAST_STORE, else a file in your state folder)",
		a.setStore)
	root.Flags().Bool("version", false, "show the version")
	root.Version = version().String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%v (see %s --help)", argumentError(err), cmd.CommandPath())
	})
	root.AddCommand(
		// To acquire locks:
		newRun(a), newElect(a), newAcquire(a), newRenew(a), newRelease(a),
		// For locks of other processes:
		newWait(a), newLs(a), newShow(a), newTop(a), newUI(a), newExporter(a), newBreak(a),
		// For stores:
		newDoctor(a), newRedlock(a), newSchema(a),
		// To see what locks do:
		newDemo(a), newVerify(a), newLab(a),
		// About the program:
		newVersion(a), newCompletion(a), newExitCodes(a),
	)
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}

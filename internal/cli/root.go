package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// stores are the URLs that people see in the help: every scheme that is registered. Of Valkey there is one: the others
// are those of Redis.
var stores = []struct{ url, meaning string }{
	{"sqlite:PATH", "a file, for the processes of one machine"},
	{"redis://HOST:6379", "a Redis server"},
	{"rediss://HOST:6379", "the same with TLS"},
	{"redis+unix:///PATH", "the same by a Unix socket"},
	{"redis+sentinel://S1,S2,S3/NAME", "Redis with replicas, by Sentinel"},
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
	{"consul://HOST:8500", "Consul; consul:///PATH by an agent's Unix socket"},
	{"consuls://HOST:8501", "the same with TLS"},
	{"memory:", "this process alone, for tests of programs; not for run"},
}

// storeURLs is the list of stores, one line each.
func storeURLs() string {
	var b strings.Builder
	for _, s := range stores {
		fmt.Fprintf(&b, "\n  %-32s %s", s.url, s.meaning)
	}
	return b.String()
}

// setStore takes --store. It must not be empty: --store "$UNSET" would take a file that nobody else uses.
func (a *app) setStore(url string) error {
	if url == "" {
		return errors.New("it is empty; leave --store out for the default")
	}
	a.storeURL = url
	return nil
}

// newRoot is the command without a subcommand. A new command is one more line here.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Run commands under locks that many processes and machines share",
		Long: `Holdfast runs commands under locks that many processes and machines share.

A lock has a name, and lives in a store. Without --store that is a file of yours on
this machine: a lock between your own processes, not those of other users. The first
to come has the lock; the others wait in line.

Stores are named by URL, and docs/cli.md has more of each:
` + storeURLs(),
		Example: `  holdfast run backup -- rsync -a /data /backup
  holdfast ls
  holdfast show backup`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().Func("store",
		"`URL` of the store, see holdfast --help (default: $HOLDFAST_STORE, else a file in your state folder)", a.setStore)
	root.Flags().Bool("version", false, "show the version")
	root.Version = version().String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%v (see %s --help)", argumentError(err), cmd.CommandPath())
	})
	root.AddCommand(
		newRun(a),
		newElect(a),
		newWait(a),
		newLs(a),
		newShow(a),
		newTop(a),
		newDoctor(a),
		newExporter(a),
		newBreak(a),
		newUI(a),
		newRedlock(a),
		newSchema(a),
		newDemo(a),
		newVerify(a),
		newLab(a),
		newVersion(a),
		newCompletion(a),
		newExitCodes(a),
	)
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/store"
)

// newRedlock returns the commands about the nodes of a store of independent Redis masters.
func newRedlock(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "redlock",
		Short: "Set up and inspect a majority of independent Redis masters",
		Long: `Set up and inspect the nodes of a store redlock://h1,h2,h3: independent Redis servers, of which a
majority grants a lock. All clients use the same max-ttl, which is a part of the URL.

Without a URL these commands use the store of --store or $HOLDFAST_STORE. Put a URL with a password
into $HOLDFAST_STORE: arguments are visible in lists of processes.`,
		Example: `  holdfast redlock init redlock://h1,h2,h3,h4,h5
  holdfast redlock status redlock://h1,h2,h3,h4,h5
  holdfast redlock trust redlock://h1,h2,h3,h4,h5 h2`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError("%s %s is not known; there are init, status and trust",
					cmd.CommandPath(), repeated(args[0]))
			}
			return usageError("a command is missing; write: %s status, or init, trust", cmd.CommandPath())
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.AddCommand(newRedlockInit(a), newRedlockStatus(a), newRedlockTrust(a))
	return cmd
}

// A nodesFunc does something with the nodes at a URL, and returns their health.
type nodesFunc func(ctx context.Context, url string, options ...redlock.Option) ([]redlock.NodeHealth, error)

// newNodes completes a command that calls do for all nodes and shows their health afterwards.
func newNodes(a *app, cmd *cobra.Command, do nodesFunc) *cobra.Command {
	var asJSON bool
	cmd.Args, cmd.ValidArgsFunction = atMostOneURL, cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		url, at, err := a.locateNodes(cmd, strings.Join(args, ""))
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), requestWithin)
		defer cancel()
		nodes, failed := do(ctx, url)
		if len(nodes) > 0 {
			if asJSON {
				err = writeJSON(a.stdout, newNodesJSON(at, nodes))
			} else {
				err = writeNodes(a.stdout, nodes)
			}
		}
		switch {
		case failed != nil:
			return nodesError(ctx, cmd, at, failed)
		case err != nil:
			return err
		case votes(nodes) < majority(nodes):
			return exitWith(exitStore, "no lock can be acquired: no majority of the nodes votes")
		}
		return nil
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

func newRedlockInit(a *app) *cobra.Command {
	return newNodes(a, &cobra.Command{
		Use:   "init [URL]",
		Short: "Let new nodes vote at once",
		Long: `Mark new nodes, so that they vote at once. A node without a mark may have had locks and lost them,
and so it has no vote until max-ttl has passed. Run it once when a deployment is set up.

If a node votes already, it marks none: a new node cannot be distinguished from one that has lost
its data, and votes after max-ttl. If no node votes, it marks all of them, also those in quarantine:
make sure that no lock is held there.

It shows the state of the nodes afterwards, and exits with 69 if one of them could not be marked, or
if no majority votes.`,
		Example: `  holdfast redlock init redlock://h1,h2,h3,h4,h5
  holdfast redlock init 'redlock://h1,h2,h3?max-ttl=30s'
  HOLDFAST_STORE=redlock://:secret@h1,h2,h3 holdfast redlock init`,
	}, a.initNodes)
}

// initNodes marks new nodes, and reports if some were left unmarked because others vote.
func (a *app) initNodes(ctx context.Context, url string, options ...redlock.Option) ([]redlock.NodeHealth, error) {
	nodes, err := redlock.Init(ctx, url, options...)
	if n := votes(nodes); err == nil && n > 0 && n < len(nodes) {
		a.logf("%d of %d nodes vote already, so none was marked; the others vote after max-ttl", n, len(nodes))
	}
	return nodes, err
}

func newRedlockStatus(a *app) *cobra.Command {
	return newNodes(a, &cobra.Command{
		Use:   "status [URL]",
		Short: "Show which nodes vote, and why the others do not",
		Long: `Show which nodes vote, which are in quarantine and for how long, and which are failing and why. It
queries all of them at once, and changes nothing. It exits with 69 if no majority votes: no lock can
be acquired then.`,
		Example: `  holdfast redlock status redlock://h1,h2,h3,h4,h5
  holdfast redlock status --json | jq -r '.nodes[] | select(.state != "voting") | .address'`,
	}, redlock.Status)
}

func newRedlockTrust(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "trust [URL] NODE",
		Short: "Declare that the next restart of a node keeps all its data",
		Long: `Declare that the next restart of a node, if within ten minutes, keeps all its data. The node, named
as in the URL, then votes at once after it. Otherwise it has no vote for max-ttl after a restart.

Use it only for a server that writes everything to its disk before it responds (appendonly yes and
appendfsync always). If it loses data in spite of that, two clients can hold one lock.`,
		Example: `  holdfast redlock trust redlock://h1,h2,h3,h4,h5 h2
  HOLDFAST_STORE=redlock://:secret@h1,h2,h3 holdfast redlock trust h2`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 || strings.ContainsAny(args[len(args)-1], "@/") {
				return usageError("which node? write: %s URL NODE", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			node := args[len(args)-1]
			url, at, err := a.locateNodes(cmd, strings.Join(args[:len(args)-1], ""))
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), requestWithin)
			defer cancel()
			health, err := redlock.Trust(ctx, url, node)
			if err != nil {
				return nodesError(ctx, cmd, at, err)
			}
			_, err = fmt.Fprintf(a.stdout, "trusted: %s, if it is restarted within %v\n", shown(health.Address),
				rounded(health.TrustedFor))
			return err
		},
	}
}

func atMostOneURL(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError("one URL is expected, not %d arguments; write: %s URL", len(args), cmd.CommandPath())
	}
	return nil
}

// locateNodes returns the URL of the store: that of the argument, or else that of --store or of the environment.
func (a *app) locateNodes(cmd *cobra.Command, argument string) (url string, at store.Location, err error) {
	_, inEnv := os.LookupEnv(storeEnv)
	switch {
	case argument != "":
		url = argument
		if at, err = store.ParseLocation(argument); err != nil {
			return "", at, usageError("the URL: %w", err)
		}
	case a.storeURL == "" && !inEnv:
		return "", at, usageError("which nodes? write: %s redlock://h1,h2,h3, or give --store or %s",
			cmd.CommandPath(), storeEnv)
	default:
		if at, err = a.locate(); err != nil {
			return "", at, err
		}
		url = a.rawStore(at)
	}
	if at.Scheme != "redlock" && at.Scheme != "redlocks" {
		return "", at, usageError("this store has no nodes that vote; give a URL such as redlock://h1,h2,h3")
	}
	return url, at, nil
}

// nodesError returns an error of package redlock with an exit code. An error that no node has reported is about the URL
// or the node's name.
func nodesError(ctx context.Context, cmd *cobra.Command, at store.Location, err error) error {
	code, op := exitUsage, "redlock "+cmd.Name()
	if _, fault := errors.AsType[*store.Fault](err); fault || ctx.Err() != nil {
		code = exitStore
	}
	if !store.Rejected(err) {
		op += " " + at.String()
	}
	return &exitError{code, &holdfast.Error{Op: op, Err: err}}
}

package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/pause"
	"github.com/holdfast-go/holdfast/store"
)

// How long elect pauses before it campaigns again: at first, and after many failures in a row.
const (
	firstCampaignPause = 200 * time.Millisecond
	lastCampaignPause  = 10 * time.Second
)

func newElect(a *app) *cobra.Command {
	f := &runFlags{busyExit: exitBusy, units: 1}
	var once bool
	cmd := &cobra.Command{
		Use:   "elect NAME [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command while this process leads",
		Long: `Campaign for the leadership of NAME, and run a command while it leads. All others that campaign for
NAME wait in order of arrival. The next of them leads when this leadership ends or is lost.

The command finds the fencing token in HOLDFAST_TOKEN, the name in HOLDFAST_NAME and the store in
HOLDFAST_STORE, as with run. When it exits, elect steps down and exits as the command did.

If the leadership is lost (the store cannot be reached for too long, or an operator broke it), the
command gets SIGTERM, and SIGKILL after --kill-after. It is gone before another leads, unless the
leadership was broken. Then elect campaigns again, also while the store cannot be reached. With
--once it exits with 79 instead, for a supervisor that starts it again.`,
		Example: `  holdfast elect scheduler -- ./scheduler --leader
  holdfast elect --label "$(hostname):8080" api -- ./api   # holdfast show api names the leader
  holdfast elect --once --ttl 10s cron -- ./cron.sh`,
		Args: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			switch {
			case dash < 0:
				return usageError("the command must come after --; write: holdfast elect NAME -- COMMAND")
			case dash != 1:
				return usageError("one name is needed before --, not %d; write: holdfast elect NAME -- COMMAND", dash)
			}
			return checkRunArgs(dash, args)
		},
		PreRunE: func(cmd *cobra.Command, _ []string) error { return f.check(cmd) },
		RunE: func(cmd *cobra.Command, args []string) error {
			e := &elect{run{app: a, runFlags: f, names: args[:1], command: args[1:], election: true}, once}
			return e.do(cmd.Context())
		},
		ValidArgsFunction: a.completeRun,
	}
	cmd.SetFlagErrorFunc(flagErrorBeforeDash)
	flags := flagsInOrder(cmd)
	flags.BoolVar(&once, "once", false, "exit with 79 when the leadership is lost, instead of campaigning again")
	durationVar(cmd, &f.wait, "wait",
		"how long to campaign, each time (default: until it leads); then it exits with 75")
	durationVar(cmd, &f.ttl, "ttl", "how long the leadership outlives holdfast without being renewed (default 30s)")
	f.endFlags(cmd, "it", "the leadership")
	f.commandFlags(flags, "report on stderr when it leads, with the token, and when the leadership is lost")
	return cmd
}

// An elect is one call of elect. It runs the command once for each time that it leads.
type elect struct {
	campaign run // as each one begins
	once     bool
}

// do campaigns and runs the command, until the command exits by itself or an error is final.
func (e *elect) do(ctx context.Context) error {
	opened := false
	for fails := 0; ; fails++ {
		r := e.campaign
		began := time.Now()
		err := r.do(ctx)
		opened = opened || r.session != nil
		switch {
		case e.once, !opened, ctx.Err() != nil, !r.lost && !recovers(err):
			return err
		case r.lost:
			r.app.logf("campaigning again for %s", store.Shown(r.names[0]))
		default:
			r.app.logf("%v; campaigning again", err)
		}
		if time.Since(began) > lastCampaignPause {
			fails = 0
		}
		// A store that is out of reach, or loses what it grants, must not be called in a hot loop.
		if !pause.For(ctx, min(firstCampaignPause<<min(fails, 10), lastCampaignPause)) {
			return err
		}
	}
}

// recovers reports whether a campaign that failed with err may succeed later.
func recovers(err error) bool {
	_, fault := errors.AsType[*store.Fault](err)
	return (fault || errors.Is(err, holdfast.ErrLost)) && !store.Final(err)
}

// campaign waits until this process leads.
func (r *run) campaign(ctx context.Context) (grip, error) {
	election := r.session.Election(r.names[0], r.options()...)
	if r.verbose {
		if leader, err := election.Leader(ctx); err == nil {
			r.app.logf("waiting for %s: %s leads since %s", store.Shown(r.names[0]), leader.Owner,
				leader.Since.Format(time.DateTime))
		}
	}
	return gripOfOne(election.Campaign(ctx))
}

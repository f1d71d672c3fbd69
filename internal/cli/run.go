package cli

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/store"
)

// runFlags are the flags of run. A pointer is nil if its flag was not given.
type runFlags struct {
	wait       *time.Duration
	noWait     bool
	skip       bool
	busyExit   int
	shared     bool
	slots      int
	units      int
	newSlots   bool
	ttl        *time.Duration
	grace      *time.Duration
	killAfter  *time.Duration
	label      string
	atLeast    *time.Duration
	once       *string
	keepFor    *time.Duration
	foreground bool
	verbose    bool
}

func newRun(a *app) *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run NAME [NAME...] [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command while holding a lock",
		Long: `Run a command while holding a lock, and release the lock when the command ends.
With several names it acquires all locks or none, without the risk of a deadlock.

The command finds the fencing token in HOLDFAST_TOKEN and the name in HOLDFAST_NAME
(of several also HOLDFAST_TOKEN_1, HOLDFAST_NAME_1 and so on, in the order given), and
the store in HOLDFAST_STORE, without a password. Holdfast exits as the command does;
'holdfast help exit-codes' lists the other codes.

With --once, holdfast acquires the lock, and then records the KEY in the store before it starts the
command. A command that fails or is killed has been run. Exit codes are those of the command, and 0
if it has been run for this KEY before.

If the lock is lost (the store cannot be reached for too long, or an operator broke the
lock), the command and all processes of its group get SIGTERM, and SIGKILL after
--kill-after. They are gone before the store grants the lock to another client, unless it
was broken. Holdfast then exits with 79. If --kill-after is given, it also applies to a
SIGTERM that holdfast gets and forwards.

The lock of a job that is stopped (Ctrl-Z) is not renewed. It is lost after the ttl and
the grace. If the job is continued too late, the command is killed before it runs again.

Processes that the command leaves in the background do not run under the lock.`,
		Example: `  holdfast run backup -- rsync -a /data /backup
  holdfast run --skip nightly -- ./nightly.sh        # cron: never two at once
  holdfast run --at-least 50 poll -- ./poll.sh       # cron: once, though clocks differ
  holdfast run --once "$(date +%F)" bill -- ./bill.sh # once a day, on one of many machines
  holdfast run --wait 30 deploy -- ./deploy.sh       # give up after 30 s, with 75
  holdfast run --shared catalog -- ./report.sh       # beside other readers
  holdfast run --slots 3 encoder -- ffmpeg ...       # three at a time
  holdfast run alice bob -- ./transfer.sh alice bob  # both or none`,
		Args:    func(cmd *cobra.Command, args []string) error { return checkRunArgs(cmd.ArgsLenAtDash(), args) },
		PreRunE: func(cmd *cobra.Command, _ []string) error { return f.check(cmd) },
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			r := &run{app: a, runFlags: f, names: args[:dash], command: args[dash:]}
			return r.do(cmd.Context())
		},
		ValidArgsFunction: a.completeRun,
	}
	cmd.SetFlagErrorFunc(flagErrorBeforeDash)
	flags := flagsInOrder(cmd)
	durationVar(cmd, &f.wait, "wait", "how long to wait for the lock (default: until it is acquired)")
	flags.BoolVar(&f.noWait, "no-wait", false, "do not wait: exit at once if the lock is taken")
	flags.BoolVar(&f.skip, "skip", false, "exit with 0 if the lock is taken; do not wait unless --wait is given")
	flags.IntVar(&f.busyExit, "busy-exit", exitBusy, "exit `CODE` if the lock is taken")
	f.demandFlags(flags)
	durationVar(cmd, &f.ttl, "ttl", "how long the lock is kept without being renewed, if holdfast dies (default 30s)")
	f.endFlags(cmd, "the lock", "the lock")
	durationVar(cmd, &f.atLeast, "at-least",
		"keep the lock taken for at least this long, also if the command ends before:\n"+
			"for cron on machines whose clocks differ")
	flags.Func("once", "run the command at most once for this `KEY`, such as \"$(date +%F)\", on all machines;\n"+
		"exit with 0 if it was run before", func(key string) error { f.once = &key; return nil })
	durationVar(cmd, &f.keepFor, "keep-for",
		"with --once: how long the store remembers the KEY (default 24h);\n"+
			"longer than the machines' clocks differ")
	f.commandFlags(flags, "report on stderr which holder it waits for, how long it took, and the token")
	return cmd
}

// flagErrorBeforeDash is for subcommands whose own flags precede a command's.
func flagErrorBeforeDash(cmd *cobra.Command, err error) error {
	return usageError("%v (see %s --help; the command and its own flags come after --)", argumentError(err),
		cmd.CommandPath())
}

// endFlags defines how long the command may take to end when its lock is lost. kept and lost name that lock.
func (f *runFlags) endFlags(cmd *cobra.Command, kept, lost string) {
	durationVar(cmd, &f.grace, "grace", "how much longer the store keeps "+kept+", for the command to end\n"+
		"(default: --kill-after and 1s, where the store can)")
	durationVar(cmd, &f.killAfter, "kill-after", "how long the command may take to end if "+lost+
		" is lost (default 5s),\nor if holdfast gets SIGTERM (default: for ever)")
}

// commandFlags defines how the command is run, shown and reported on.
func (f *runFlags) commandFlags(flags *pflag.FlagSet, verbose string) {
	flags.BoolVar(&f.foreground, "foreground", false,
		"leave the command in holdfast's process group, so that it shares the terminal with a pipe")
	flags.StringVar(&f.label, "label", "", "a `LABEL` that show, ls and top print (default: the command's name)")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, verbose)
}

// demandFlags defines the flags that say what is requested of a name.
func (f *runFlags) demandFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&f.shared, "shared", false, "acquire a read lock, which others can hold at the same time")
	flags.IntVar(&f.slots, "slots", 0, "acquire part of a semaphore with `N` units; use the same N everywhere")
	flags.IntVar(&f.units, "units", 1, "with --slots: acquire `K` of the N units")
	flags.BoolVar(&f.newSlots, "change-slots", false,
		"with --slots: accept that others use another N, while it is being changed")
}

// flagsInOrder returns the flags of cmd. Its help lists them in the order in which they are defined.
func flagsInOrder(cmd *cobra.Command) *pflag.FlagSet {
	flags := cmd.Flags()
	flags.SortFlags = false
	return flags
}

// durationVar defines a flag whose value is nil if it was not given.
func durationVar(cmd *cobra.Command, p **time.Duration, name, usage string) {
	cmd.Flags().Var(optionalDuration{p}, name, usage)
}

// An optionalDuration is the value of such a flag.
type optionalDuration struct{ p **time.Duration }

// Set parses what time.ParseDuration does, and a number without a unit as seconds, like flock and timeout.
func (d optionalDuration) Set(s string) error {
	text := s
	if strings.Trim(s, "+-.0123456789") == "" {
		text += "s"
	}
	v, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return errors.New("it is not a duration (write 30s, 1m30s, 500ms, or seconds: 30, 0.5)")
	case v < 0:
		return errors.New("it must not be negative")
	}
	*d.p = &v
	return nil
}

func (d optionalDuration) String() string {
	if d.p == nil || *d.p == nil {
		return ""
	}
	return (*d.p).String()
}

func (d optionalDuration) Type() string { return "duration" }

// checkRunArgs returns an error if an argument is missing or invalid. dash is the number of arguments before the --, or
// -1 without one.
func checkRunArgs(dash int, args []string) error {
	const form = "write: holdfast run NAME -- COMMAND"
	switch {
	case dash < 0:
		return usageError("the command must come after --; %s", form)
	case dash == 0:
		return usageError("no name of a lock; %s", form)
	case dash == len(args):
		return usageError("no command after --; %s", form)
	}
	for _, name := range args[:dash] {
		if err := store.CheckName(name); err != nil {
			return err
		}
	}
	return nil
}

// check returns an error for flags that do not fit together.
func (f *runFlags) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	switch {
	case given("wait") && f.noWait:
		return usageError("--wait and --no-wait contradict each other")
	case given("busy-exit") && f.skip:
		return usageError("--skip and --busy-exit contradict each other: --skip exits with 0")
	case f.shared && given("slots"):
		return usageError("--shared and --slots contradict each other: a name is a lock or a semaphore")
	case given("slots") && f.slots < 1:
		return usageError("--slots must be at least 1")
	case given("units") && !given("slots"):
		return usageError("--units needs --slots, the number of units that there are")
	case f.newSlots && !given("slots"):
		return usageError("--change-slots needs --slots")
	case f.keepFor != nil && f.once == nil:
		return usageError("--keep-for needs --once")
	case f.once != nil && *f.once == "":
		return usageError("--once needs a KEY that is not empty")
	case f.once != nil && (f.shared || given("slots") || cmd.ArgsLenAtDash() != 1):
		return usageError("--once needs one name, and neither --shared nor --slots")
	case f.units < 1 || given("slots") && f.units > f.slots:
		return usageError("--units must be from 1 to --slots")
	case f.busyExit < 0 || f.busyExit > 255:
		return usageError("--busy-exit must be from 0 to 255")
	case f.ttl != nil && *f.ttl == 0:
		return usageError("--ttl must be positive")
	}
	if f.skip {
		f.busyExit = 0
	}
	if f.skip && f.wait == nil || f.wait != nil && *f.wait == 0 {
		f.noWait = true
	}
	return nil
}

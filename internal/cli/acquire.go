package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
)

// leaseEnv is where renew and release find the lease if it is not an argument.
const leaseEnv = "HOLDFAST_LEASE"

// unguarded says what acquire cannot do, in the help of the commands that belong to it.
const unguarded = `No process watches over such a lock. If the script takes longer than --for, another client can
acquire the lock while the script is at work, and nothing stops the script: run renew in time, check
what it exits with, and let what the lock protects check the fencing token. If the script dies, the
lock stays taken until --for has passed. Where one command can be wrapped, use run: it renews the
lock, releases it, and ends the command if the lock is lost.`

func newAcquire(a *app) *cobra.Command {
	f := &runFlags{busyExit: exitBusy, grace: new(time.Duration)}
	var spell *time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "acquire NAME --for DURATION",
		Short: "Acquire a lock that stays taken when holdfast exits, for scripts",
		Long: `Acquire a lock and exit. The lock stays taken for --for, or until release. The output is a text that
stands for the lease: pass it to renew and release, or to a program that attaches it.

` + unguarded + `

It exits with 75 if the lock is taken.`,
		Example: `  lease=$(holdfast acquire deploy --for 10m --wait 1m) || exit
  ./step-one.sh
  holdfast renew "$lease" --for 10m || exit   # lost: stop here
  ./step-two.sh
  holdfast release "$lease"`,
		Args:              oneName,
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			if spell == nil {
				return usageError("--for is missing: how long the lock stays taken unless it is renewed or released")
			}
			r := &run{app: a, runFlags: f, names: args, single: true, spell: *spell}
			return r.detach(cmd.Context(), asJSON)
		},
	}
	flags := flagsInOrder(cmd)
	durationVar(cmd, &spell, "for", "how long the lock stays taken without renew (needed)")
	durationVar(cmd, &f.wait, "wait", "how long to wait for the lock (default: until it is acquired)")
	flags.BoolVar(&f.noWait, "no-wait", false, "do not wait: exit at once if the lock is taken")
	f.demandFlags(flags)
	flags.StringVar(&f.label, "label", "", "a `LABEL` that show, ls and top print")
	flags.BoolVar(&asJSON, "json", false, "print the lease, the name, the token and the end as JSON")
	return cmd
}

func newRenew(a *app) *cobra.Command {
	var spell *time.Duration
	cmd := &cobra.Command{
		Use:   "renew [LEASE] --for DURATION",
		Short: "Extend a lock that acquire has taken",
		Long: `Make a lock that acquire has taken expire after --for from now, unless it expires later anyway.
LEASE is what acquire printed: an argument, $` + leaseEnv + `, or a line of stdin for -.

` + unguarded + `

It exits with 79 if the lock was lost: it had expired, or was broken, released or attached.`,
		Example: `  holdfast renew "$lease" --for 10m || exit`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if spell == nil {
				return usageError("--for is missing: how long the lock stays taken from now on")
			}
			return a.withLease(cmd.Context(), args, func(ctx context.Context, s *session, x holdfast.Detached) error {
				_, err := s.Extend(ctx, x, *spell)
				return err
			})
		},
	}
	durationVar(cmd, &spell, "for", "how long the lock stays taken from now on (needed)")
	return cmd
}

func newRelease(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "release [LEASE]",
		Short: "Release a lock that acquire has taken",
		Long: `Release a lock that acquire has taken. LEASE is what acquire printed: an argument,
$` + leaseEnv + `, or a line of stdin for -.

It exits with 79 if the lock was lost: it had expired, or was broken, released or attached. Then
another holder may have worked at the same time as the script.`,
		Example: `  trap 'holdfast release "$lease"' EXIT`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withLease(cmd.Context(), args, func(ctx context.Context, s *session, x holdfast.Detached) error {
				return s.Release(ctx, x)
			})
		},
	}
}

// withLease opens the store and passes the lease of a call of renew or release to do.
func (a *app) withLease(ctx context.Context, args []string,
	do func(context.Context, *session, holdfast.Detached) error,
) error {
	text := os.Getenv(leaseEnv)
	if len(args) > 0 {
		text = args[0]
	}
	if text == "-" {
		line, err := bufio.NewReader(io.LimitReader(a.stdin, 64<<10)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return usageError("reading the lease from stdin: %w", err)
		}
		text = line
	}
	if text = strings.TrimSpace(text); text == "" {
		return usageError("no lease: give what acquire printed, or set %s", leaseEnv)
	}
	x, err := holdfast.ParseDetached(text)
	if err != nil {
		return usageError("%w", err)
	}
	return a.withStore(ctx, func(ctx context.Context, s *session) error {
		err := do(ctx, s, x)
		if errors.Is(err, holdfast.ErrLost) {
			return exitWith(exitLost, "%w", err)
		}
		return err
	})
}

// lockOne acquires the one lock, as a lease that can be detached for r.spell. If it cannot be, lockOne does not wait.
func (r *run) lockOne(ctx context.Context) (grip, error) {
	switch a := &r.session.abilities; {
	case !a.Detach:
		return nil, usageError("%s: %w: it has no detached leases", a.Store, holdfast.ErrUnsupported)
	case r.spell < a.MinTTL || r.spell > a.MaxTTL:
		return nil, usageError("%s: %w: --for %v: the store allows %v to %v", a.Store, holdfast.ErrBadTTL, r.spell,
			a.MinTTL, a.MaxTTL)
	}
	return gripOfOne(r.lease(ctx))
}

// detach acquires the one lock, detaches it, and prints it.
func (r *run) detach(ctx context.Context, asJSON bool) error {
	waiting, stop, end := listenTo(ctx, interrupts)
	defer end()
	err := r.acquire(waiting)
	sig := stop()
	defer r.close(sig)
	switch {
	case sig != nil: // closing the store releases what was acquired
		return r.app.endedBy(sig)
	case err != nil:
		return err
	}
	signal.Ignore(syscall.SIGPIPE) // if the output has no reader, the lease is released below
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	sent := time.Now()                             // the store counts from later on
	x, err := r.grip.(leased).Detach(ctx, r.spell) //nolint:forcetypeassert // lockOne made it
	if err != nil {
		return err
	}
	if !asJSON {
		_, err = fmt.Fprintln(r.app.stdout, x)
	} else {
		err = json.NewEncoder(r.app.stdout).Encode(struct {
			Lease holdfast.Detached `json:"lease"`
			Name  string            `json:"name"`
			Token holdfast.Token    `json:"token"`
			Until time.Time         `json:"until"`
		}{x, x.Name(), x.Token(), sent.Add(r.spell).Truncate(time.Millisecond)})
	}
	if err != nil { // no process knows of the lease
		return errors.Join(exitWith(exitStore, "the lease could not be printed, and is released: %w", err),
			r.session.Release(ctx, x))
	}
	return nil
}

package cli

import (
	"context"
	"errors"
	"iter"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/top"
	"github.com/holdfast-go/holdfast/store"
)

// minInterval is the shortest --interval.
const minInterval = 100 * time.Millisecond

// topFlags are the flags of top.
type topFlags struct {
	once, plain bool
	interval    time.Duration
}

func newTop(a *app) *cobra.Command {
	var flags topFlags
	cmd := &cobra.Command{
		Use:   "top [PREFIX]",
		Short: "Show locks live, in the terminal",
		Long: `Show the locks that are held or waited for, live, or those whose name begins with PREFIX.
Press ? for the keys. Where the output is not a terminal, and with --plain, it writes one
line for each lock, and one for each that changes.`,
		Example: `  holdfast top
  holdfast top deploy/
  holdfast top --once
  holdfast top --plain | grep nightly`,
		Args: func(cmd *cobra.Command, args []string) error {
			if flags.interval < minInterval && len(args) <= 1 {
				return usageError("--interval is %v, and %v is the least", flags.interval, minInterval)
			}
			return atMostOnePrefix(cmd, args)
		},
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.top(cmd.Context(), strings.Join(args, ""), flags)
		},
	}
	cmd.Flags().BoolVar(&flags.once, "once", false, "write a table once, and exit")
	cmd.Flags().BoolVar(&flags.plain, "plain", false, "write lines instead of using the whole terminal")
	cmd.Flags().DurationVar(&flags.interval, "interval", time.Second, "how often to draw, or to write what changed")
	return cmd
}

// top shows the queues until a key or a signal ends it.
func (a *app) top(ctx context.Context, prefix string, flags topFlags) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	source, err := a.openSource(ctx)
	if err != nil {
		return err
	}
	defer source.close()
	config := top.Config{
		Store: source.name, Prefix: prefix, Interval: flags.interval, Watch: source.watch, Read: source.read,
	}
	out, isFile := a.stdout.(*os.File)
	switch {
	case flags.once:
		ctx, cancel := context.WithTimeout(ctx, requestWithin)
		defer cancel()
		return top.Once(ctx, a.stdout, config)
	case flags.plain || !isFile || !isTerminal(out):
		return top.Plain(ctx, a.stdout, config)
	}
	screen, err := tcell.NewScreen()
	if err != nil {
		return exitWith(exitUsage, "this terminal cannot be used (%w); try --plain", err)
	}
	return top.Run(ctx, screen, config)
}

// A source is the store that top shows. A file that does not exist has no locks: it is opened once it exists.
type source struct {
	name string
	at   store.Location
	open atomic.Pointer[session] // nil while the file does not exist
}

// openSource connects to the store.
func (a *app) openSource(ctx context.Context) (*source, error) {
	at, err := a.locate()
	if err != nil {
		return nil, err
	}
	s := &source{name: "sqlite at " + at.Path, at: at}
	if !isMissing(at) {
		err = s.connect(ctx)
	}
	return s, err
}

func (s *source) connect(ctx context.Context) error {
	open, err := openSoon(ctx, s.at)
	if err != nil {
		return err
	}
	s.name = open.abilities.Store
	s.open.Store(open)
	return nil
}

func (s *source) close() {
	if open := s.open.Load(); open != nil {
		_ = open.Close() // it held nothing
	}
}

// missingEvery is how often a missing file is checked for.
const missingEvery = time.Second

// watch is Client.Watch.
func (s *source) watch(ctx context.Context, prefix string) iter.Seq2[[]holdfast.Queue, error] {
	return func(yield func([]holdfast.Queue, error) bool) {
		if s.open.Load() == nil && !yield(nil, nil) {
			return
		}
		for s.open.Load() == nil {
			select {
			case <-time.After(missingEvery):
			case <-ctx.Done():
				return
			}
			if isMissing(s.at) {
				continue
			}
			if err := s.connect(ctx); err != nil && (!yield(nil, err) || store.Final(err)) {
				return
			}
		}
		for batch, err := range s.open.Load().Watch(ctx, prefix) {
			if !yield(batch, err) {
				return
			}
		}
	}
}

// read reads one queue.
func (s *source) read(ctx context.Context, name string) (store.Queue, error) {
	open := s.open.Load()
	if open == nil {
		return store.Queue{Name: name}, errors.New("the file does not exist yet")
	}
	return open.store.Queue(ctx, name)
}

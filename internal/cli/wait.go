package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/store"
)

// How often wait reads a queue: at first, and later.
const (
	firstWaitPause = 50 * time.Millisecond
	lastWaitPause  = 500 * time.Millisecond
)

func newWait(a *app) *cobra.Command {
	w := &waiting{app: a}
	cmd := &cobra.Command{
		Use:   "wait NAME",
		Short: "Wait until a lock is free, or held, without acquiring it",
		Long: `Wait until no client holds a lock or waits for it, or with --held until one holds it. It does not
acquire the lock: another client may when wait returns. To work under the lock use run.

It reads the queue a few times a second. A state that lasts for less than half a second may be
missed. A store that fails meanwhile is read again until --timeout has passed.

It exits with 0 when the lock is in that state, and with 75 if --timeout passes before.`,
		Example: `  holdfast wait deploy && ./smoke-test.sh
  holdfast wait --timeout 10m migration || exit 1
  holdfast wait --held --timeout 30 leader          # until some process leads`,
		Args:              oneName,
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			w.name = args[0]
			return w.do(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&w.held, "held", false, "wait until the lock is held")
	durationVar(cmd, &w.timeout, "timeout", "how long to wait (default: for ever; 0: read once)")
	return cmd
}

// A waiting is one call of wait.
type waiting struct {
	app     *app
	name    string
	held    bool
	timeout *time.Duration
	failing bool // a failure was reported, and no read has succeeded since
}

// do waits, and ends by a signal as run does.
func (w *waiting) do(ctx context.Context) error {
	if err := store.CheckName(w.name); err != nil {
		return err
	}
	listening, stop, end := listenTo(ctx, interrupts)
	defer end()
	err := w.until(listening)
	if sig := stop(); sig != nil {
		return w.app.endedBy(sig)
	}
	return err
}

// until reads the queue until it is in the state that is waited for, or --timeout has passed.
func (w *waiting) until(ctx context.Context) error {
	began := time.Now()
	s, err := w.open(ctx)
	if err != nil {
		return err
	}
	defer func() { s.Close() }() //nolint:errcheck // it held nothing
	for pause := firstWaitPause; ; pause = min(2*pause, lastWaitPause) {
		if s, err = w.reopened(ctx, s); err != nil {
			return err
		}
		done, err := w.read(ctx, s)
		left := time.Hour
		if w.timeout != nil {
			left = *w.timeout - time.Since(began)
		}
		switch {
		case done:
			return nil
		case err != nil && (store.Final(err) || left <= 0):
			return err
		case left <= 0 && w.held:
			return exitWith(exitBusy, "no client holds %s after %v", store.Shown(w.name), *w.timeout)
		case left <= 0:
			return exitWith(exitBusy, "%s is still in use after %v", store.Shown(w.name), *w.timeout)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		w.report(err)
		select {
		case <-time.After(min(pause, left)):
		case <-ctx.Done():
		}
	}
}

// open opens the store. A store that cannot be opened at first is an error: the URL may be wrong.
func (w *waiting) open(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	return w.app.openToRead(ctx)
}

// reopened returns s, or the store itself once its file exists: until then s is an empty store in memory.
func (w *waiting) reopened(ctx context.Context, s *session) (*session, error) {
	if s.inherit != nil || isMissing(s.at) {
		return s, nil
	}
	now, err := w.open(ctx)
	if err != nil {
		return s, err
	}
	s.Close() //nolint:errcheck // it is the one in memory
	return now, nil
}

// read reads the queue once, and reports whether it is in the state that is waited for.
func (w *waiting) read(ctx context.Context, s *session) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	queue, err := s.Inspect(ctx, w.name)
	if err != nil {
		return false, err
	}
	if w.held {
		return len(queue.Holders()) > 0, nil
	}
	return len(queue.Entries) == 0, nil
}

// report writes a failure of the store once, until a read has succeeded.
func (w *waiting) report(err error) {
	if err != nil && !w.failing && !errors.Is(err, context.Canceled) {
		w.app.logf("trying again: %v", err)
	}
	w.failing = err != nil
}

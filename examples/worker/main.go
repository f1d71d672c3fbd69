// Command worker works through tasks on one machine at a time. Start it on several: one leads and works, the others
// stand by, and one of them takes over when the leader ends, dies, or is cut off from the store.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	_ "github.com/holdfast-go/holdfast/stores" // all of them, since --store chooses
)

func main() {
	// A signal ends ctx: the worker finishes its task, steps down, and exits. A second one ends it at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stderr))
}

// run is the program without the process around it. It returns the exit code: 0 after a signal, 1 if the store failed
// for good, and 2 if it was called wrongly.
func run(ctx context.Context, args []string, out io.Writer) int {
	log := slog.New(slog.NewTextHandler(out, nil))
	host, _ := os.Hostname() // without it, the label is the process alone
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.SetOutput(out)
	url := flags.String("store", cmp.Or(os.Getenv("HOLDFAST_STORE"), "sqlite:worker.db"),
		"the store that all machines use")
	every := flags.Duration("every", time.Second, "the time between two tasks")
	label := flags.String("label", fmt.Sprintf("%s:%d", host, os.Getpid()), "what others see of the leader")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil || flags.NArg() > 0 || *every <= 0 {
		fmt.Fprintln(out, "worker: see worker --help")
		return 2
	}

	locks, err := holdfast.Open(ctx, *url, holdfast.WithLogger(log), holdfast.WithLabel(*label))
	if err != nil {
		log.Error("the store cannot be opened", "err", err)
		return 1
	}
	defer locks.Close()

	log.Info("standing by", "label", *label)
	w := &worker{every: *every, log: log}
	err = locks.Election("worker").Run(ctx, w.lead)
	if ctx.Err() != nil {
		log.Info("stopped")
		return 0
	}
	log.Error("the campaign has ended", "err", err)
	return 1
}

// A worker does a task from time to time while it leads.
type worker struct {
	every time.Duration
	log   *slog.Logger
}

// lead works for one term. Run calls it again for the next one. It must return soon after ctx has ended, since another
// machine may lead then.
func (w *worker) lead(ctx context.Context) error {
	token, _ := holdfast.TokenFrom(ctx)
	w.log.Info("leading", "token", token)
	ticker := time.NewTicker(w.every)
	defer ticker.Stop()
	for {
		if err := w.task(ctx, token); err != nil && ctx.Err() == nil {
			w.log.Error("a task failed", "err", err) // the next one may succeed; to step down, return the error
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			w.log.Info("no longer leading", "token", token, "reason", context.Cause(ctx))
			return ctx.Err()
		}
	}
}

// task is where the work is done. It passes ctx to every call, so that a call ends with the leadership, and the token
// along with every write, so that the data can refuse it if a newer leader has written (package fence).
func (w *worker) task(ctx context.Context, token holdfast.Token) error {
	w.log.DebugContext(ctx, "task", "token", token)
	return ctx.Err()
}

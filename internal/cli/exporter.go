package cli

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/exporter"
)

const (
	defaultListen = "127.0.0.1:9646"

	// serveWithin bounds a request and its response; endWithin the end of the server.
	serveWithin = 10 * time.Second
	endWithin   = 2 * time.Second
)

// exporterFlags are the flags of exporter.
type exporterFlags struct {
	listen      string
	otlp        string
	prefix      string
	separators  string
	byName      bool
	maxPrefixes int
	every       *time.Duration
}

func newExporter(a *app) *cobra.Command {
	f := &exporterFlags{}
	cmd := &cobra.Command{
		Use:   "exporter",
		Short: "Serve metrics of what is in a store",
		Long: `Serve metrics of what is in a store, for Prometheus at /metrics, and push them to OpenTelemetry
with --otlp: how many locks are held, how many claims wait, the oldest wait, the longest hold,
claims that are about to expire, and whether the store is up. One exporter for each store is
enough.

Names are counted by prefix: up to and with the first of --separators, or under "" if a name has
none of them. So deploy/eu and deploy/us are counted under deploy/. With --by-name each name has a
series of its own.

It goes on when the store is away, and reports holdfast_store_up 0. It listens on this machine alone
unless --listen says otherwise: names of locks may tell more than others should know.
docs/monitoring has a dashboard for Grafana and alert rules for Prometheus.`,
		Example: `  holdfast exporter --store redis://10.0.0.5:6379
  holdfast exporter --listen 0.0.0.0:9646 --prefix shop/
  holdfast exporter --listen none --otlp http://collector:4318
  curl -s http://127.0.0.1:9646/metrics`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.export(cmd.Context(), f)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.listen, "listen", defaultListen, "`ADDRESS` to serve /metrics and /healthz at, or none")
	flags.StringVar(&f.otlp, "otlp", "", "`URL` of an OTLP receiver over HTTP to push to, as in http://HOST:4318")
	flags.StringVar(&f.prefix, "prefix", "", "count only names that begin with `PREFIX`")
	flags.StringVar(&f.separators, "separators", "/:", "the `CHARACTERS` that end the prefix by which a name is counted")
	flags.BoolVar(&f.byName, "by-name", false, "one series for each name; expensive where names are made of ids")
	flags.IntVar(&f.maxPrefixes, "max-prefixes", 200, "count what is beyond `N` prefixes under (other)")
	durationVar(cmd, &f.every, "every", "how often to probe the store, and to push (default 10s)")
	return cmd
}

// check reports which flags do not fit.
func (f *exporterFlags) check() error {
	ten := 10 * time.Second
	if f.every == nil {
		f.every = &ten
	}
	switch {
	case f.listen == "none" && f.otlp == "":
		return usageError("with --listen none metrics go nowhere; give --otlp URL")
	case f.maxPrefixes < 1:
		return usageError("--max-prefixes must be at least 1")
	case *f.every < 100*time.Millisecond:
		return usageError("--every must be at least 100ms")
	}
	return nil
}

// export follows the store, serves and pushes, until a signal ends it.
func (a *app) export(ctx context.Context, f *exporterFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	if _, err := a.locate(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	a.journal.opened()
	e := exporter.New(exporter.Config{
		Open: a.openToExport, Prefix: f.prefix, Separators: f.separators, ByName: f.byName, MaxPrefixes: f.maxPrefixes,
		Every: *f.every, Changed: func(err error) {
			if err != nil {
				a.say("the store cannot be used: %v", err)
			} else {
				a.say("the store is back")
			}
		},
	})
	if f.otlp != "" {
		end, err := a.push(ctx, e, f)
		if err != nil {
			return usageError("--otlp: %v", err)
		}
		defer end()
	}
	var served <-chan error
	if f.listen != "none" {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", f.listen)
		if err != nil {
			return usageError("--listen: %v", err)
		}
		a.say("metrics are served at http://%s/metrics", listener.Addr())
		end, failed := serve(listener, e.Handler())
		defer end()
		served = failed
	}
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- e.Run(following) }()
	select {
	case err := <-served:
		cancel()
		<-ended
		return exitWith(exitStore, "metrics are no longer served: %w", err)
	case err := <-ended:
		return err
	}
}

// openToExport opens the store that is meant. What is wrong with its URL is not tried again.
func (a *app) openToExport(ctx context.Context) (c *holdfast.Client, name string, retry bool, err error) {
	at, err := a.locate()
	if err != nil {
		return nil, "", false, err
	}
	if isMissing(at) {
		return nil, "", true, errors.New("the file is not there yet; holdfast run makes it")
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	s, err := openAt(ctx, at)
	if err != nil {
		return nil, "", exitCode(err) != exitUsage, err
	}
	return s.Client, s.abilities.Store, false, nil
}

// serve serves HTTP until end is called. It reports on failed if it ends before.
func serve(l net.Listener, handler http.Handler) (end func(), failed <-chan error) {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: serveWithin, ReadTimeout: serveWithin, WriteTimeout: serveWithin,
		IdleTimeout: time.Minute,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), endWithin)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close() //nolint:errcheck // it ends in any case
		}
	}, ended
}

// push pushes metrics until end is called. A failure is reported once.
func (a *app) push(ctx context.Context, e *exporter.Exporter, f *exporterFlags) (end func(), err error) {
	var failing atomic.Bool
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if !failing.Swap(true) {
			a.say("metrics are not pushed: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}))
	stop, err := e.Push(context.WithoutCancel(ctx), f.otlp, *f.every)
	if err != nil {
		return nil, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), endWithin)
		defer cancel()
		stop(ctx) //nolint:errcheck // the error handler has reported it
	}, nil
}

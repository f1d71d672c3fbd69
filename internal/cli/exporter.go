package cli

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"os/signal"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/exporter"
)

const (
	defaultListen = "127.0.0.1:9646"

	// serveWithin bounds a request with its response, and endWithin the shutdown of the server.
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

Names are counted by prefix: up to and including the first of --separators, or under "" if a name
has none of them. So deploy/eu and deploy/us are counted under deploy/. With --by-name each name has
a series of its own.

It keeps running when the store fails, and reports holdfast_store_up 0. It listens on this machine
only, unless --listen names another address: names of locks may be confidential.
docs/monitoring has a dashboard for Grafana and alert rules for Prometheus.`,
		Example: `  holdfast exporter --store redis://10.0.0.5:6379
  holdfast exporter --listen 0.0.0.0:9646 --prefix shop/
  holdfast exporter --listen none --otlp http://collector:4318
  curl -s http://127.0.0.1:9646/metrics`,
		Args:              cobra.NoArgs,
		PreRunE:           func(*cobra.Command, []string) error { return f.check() },
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.export(cmd.Context(), f) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := flagsInOrder(cmd)
	flags.StringVar(&f.listen, "listen", defaultListen, "`ADDRESS` to serve /metrics and /healthz at, or none")
	flags.StringVar(&f.otlp, "otlp", "", "`URL` of an OTLP receiver over HTTP to push to, as in http://HOST:4318")
	flags.StringVar(&f.prefix, "prefix", "", "count only names that begin with `PREFIX`")
	flags.StringVar(&f.separators, "separators", "/:",
		"the `CHARACTERS` that end the prefix by which a name is counted")
	flags.BoolVar(&f.byName, "by-name", false, "one series for each name; expensive where names are made of ids")
	flags.IntVar(&f.maxPrefixes, "max-prefixes", 200, "count what is beyond `N` prefixes under (other)")
	durationVar(cmd, &f.every, "every", "how often to probe the store, and to push (default 10s)")
	return cmd
}

// check returns an error for flags that do not fit together.
func (f *exporterFlags) check() error {
	f.every = cmp.Or(f.every, new(10*time.Second))
	switch {
	case f.listen == "none" && f.otlp == "":
		return usageError("with --listen none metrics are not served; give --otlp URL to push them")
	case f.maxPrefixes < 1:
		return usageError("--max-prefixes must be at least 1")
	case *f.every < 100*time.Millisecond:
		return usageError("--every must be at least 100ms")
	}
	return nil
}

// export watches the store, serves metrics and pushes them, until a signal ends it.
func (a *app) export(ctx context.Context, f *exporterFlags) error {
	if _, err := a.locate(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, interrupts...)
	defer stop()
	a.journal.opened()
	e := exporter.New(exporter.Config{
		Open: a.openToExport, Prefix: f.prefix, Separators: f.separators, ByName: f.byName, MaxPrefixes: f.maxPrefixes,
		Every: *f.every, Changed: func(err error) {
			if err != nil {
				a.logf("the store cannot be used: %v", err)
			} else {
				a.logf("the store can be used again")
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
		a.logf("metrics are served at http://%s/metrics", listener.Addr())
		server := &http.Server{
			Handler: e.Handler(), ReadHeaderTimeout: serveWithin, ReadTimeout: serveWithin, WriteTimeout: serveWithin,
			IdleTimeout: time.Minute,
		}
		end, failed := serve(listener, server, endWithin)
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

// openToExport opens the store. retry is false if the URL is wrong.
func (a *app) openToExport(ctx context.Context) (c *holdfast.Client, name string, retry bool, err error) {
	at, err := a.locate()
	if err != nil {
		return nil, "", false, err
	}
	if isMissing(at) {
		return nil, "", true, errors.New("the file does not exist yet; holdfast run creates it")
	}
	s, err := openSoon(ctx, at)
	if err != nil {
		return nil, "", exitCode(err) != exitUsage, err
	}
	return s.Client, s.abilities.Store, false, nil
}

// serve serves HTTP until end is called, which waits for requests under way for at most within. If serving ends before,
// failed has the error.
func serve(l net.Listener, server *http.Server, within time.Duration) (end func(), failed <-chan error) {
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close() //nolint:errcheck // the process ends
		}
	}, ended
}

// push pushes metrics until end is called. It reports only the first failure.
func (a *app) push(ctx context.Context, e *exporter.Exporter, f *exporterFlags) (end func(), err error) {
	var failing atomic.Bool
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if !failing.Swap(true) {
			a.logf("metrics are not pushed: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
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

package cli

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/internal/doctor"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/webui"
)

const (
	uiAddress   = "127.0.0.1:7117"    // the default of --listen
	uiTokenEnv  = "HOLDFAST_UI_TOKEN" // unlike a flag it is not visible in a list of processes
	uiEndWithin = 500 * time.Millisecond
)

type uiFlags struct {
	listen     string
	hosts      []string
	prefix     string
	basePath   string
	allowBreak bool
}

func newUI(a *app) *cobra.Command {
	f := &uiFlags{}
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Serve a page that shows locks as they change",
		Long: `Serve a page that shows the locks of a store as they change: which names are held, by which holder,
for how long, which claims wait, which claim blocks which, and deadlocks. It prints the address of
the page, and serves it until Ctrl-C.

It listens on this machine only, unless --listen names another address. Then, and with
--allow-break, the page needs a token: that of HOLDFAST_UI_TOKEN, or one that is generated and
printed as part of the address. The page is not encrypted: from elsewhere, use it through ssh -L or
behind a server that has TLS.`,
		Example: `  holdfast ui
  holdfast ui --store redis://127.0.0.1:6379 --allow-break
  holdfast ui --listen 0.0.0.0:7117 --host ops.example.com`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError("ui takes no arguments; --prefix limits what it shows")
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.serveUI(cmd.Context(), f) },
	}
	flags := flagsInOrder(cmd)
	flags.StringVar(&f.listen, "listen", "",
		"`ADDRESS` to listen on (default: "+uiAddress+", or another port if that is in use)")
	flags.BoolVar(&f.allowBreak, "allow-break", false, "let the page break claims")
	flags.StringVar(&f.prefix, "prefix", "", "show only names that begin with `PREFIX`")
	flags.StringSliceVar(&f.hosts, "host", nil,
		"a host `NAME` by which browsers may reach the page, beside IP addresses and localhost")
	flags.StringVar(&f.basePath, "base-path", "/", "the `PATH` of the page, for a proxy that serves it below one")
	return cmd
}

// serveUI serves the page until a signal arrives.
func (a *app) serveUI(ctx context.Context, f *uiFlags) error {
	ctx, stop := signal.NotifyContext(ctx, interrupts...)
	defer stop()
	at, err := a.locateToWrite() // the commands that read once do not create the file, but here locks may come later
	if err != nil {
		return err
	}
	s, err := openSoon(ctx, at)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // it held nothing
	listener, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer listener.Close() //nolint:errcheck // nothing was written to it
	page, err := f.newPage(s, isLoopback(listener.Addr()), slog.New(&a.journal))
	if err != nil {
		return err
	}
	defer page.Close()
	a.journal.opened() // from now on warnings of the store are written as they come
	fmt.Fprintf(a.stdout, "http://%s%s%s\n", shownAddress(listener.Addr()), strings.TrimSuffix(f.basePath, "/")+"/",
		page.Fragment())
	if !isLoopback(listener.Addr()) {
		a.logf("the page is not encrypted; use it in a network that you trust, or behind a server that has TLS")
	}
	return serveUntil(ctx, listener, page)
}

// open listens. Without --listen it uses another port if the default one is in use.
func (f *uiFlags) open(ctx context.Context) (net.Listener, error) {
	var config net.ListenConfig
	address := f.listen
	if address == "" {
		if l, err := config.Listen(ctx, "tcp", uiAddress); err == nil {
			return l, nil
		}
		address = "127.0.0.1:0"
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, usageError("--listen: %s is not HOST:PORT", repeated(address))
	}
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, usageError("--listen: %w", err)
	}
	return l, nil
}

// newPage returns the handler, with a token if another user or machine could reach it.
func (f *uiFlags) newPage(s *session, loopback bool, log *slog.Logger) (*webui.Handler, error) {
	options := []webui.Option{
		webui.WithPrefix(f.prefix), webui.WithBasePath(f.basePath), webui.WithLogger(log), webui.WithHosts(f.hosts...),
		webui.WithStoreURL(absolute(s.at).String()), webui.WithHealth(examination(s.at)),
	}
	if name, err := os.Hostname(); err == nil && !loopback {
		options = append(options, webui.WithHosts(name))
	}
	if f.allowBreak {
		options = append(options, webui.WithBreak())
	}
	token := os.Getenv(uiTokenEnv)
	if token == "" && (f.allowBreak || !loopback) {
		token = rand.Text()
	}
	if token != "" {
		options = append(options, webui.WithToken(token))
	}
	page, err := webui.New(s.Client, options...)
	if err != nil {
		return nil, usageError("%s", strings.TrimPrefix(err.Error(), "webui: "))
	}
	return page, nil
}

// examination returns what doctor finds, for the page.
func examination(at store.Location) func(context.Context) []webui.Check {
	return func(ctx context.Context) []webui.Check {
		report, err := doctor.Run(ctx, at, nil)
		if err != nil {
			return []webui.Check{{Name: "open", Status: webui.Fail, Detail: bareError{err}.Error()}}
		}
		checks := make([]webui.Check, len(report.Findings))
		for i, f := range report.Findings {
			detail := f.Found
			if f.Why != "" {
				detail += "; " + f.Why
			}
			checks[i] = webui.Check{Name: f.Check, Status: webui.Status(f.Level.String()), Detail: detail, Fix: f.Fix}
		}
		return checks
	}
}

// serveUntil serves until ctx ends. Then it waits for requests under way for at most uiEndWithin, and closes.
func serveUntil(ctx context.Context, l net.Listener, page *webui.Handler) error {
	server := &http.Server{
		Handler: page, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // what clients do wrong
	}
	end, failed := serve(l, server, uiEndWithin)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	page.Close()
	end()
	<-failed // it is over
	return nil
}

func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// shownAddress returns an address that a browser can open: for an unspecified address, that of this host.
func shownAddress(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return a.String()
	}
	name, err := os.Hostname()
	if err != nil || name == "" {
		name = "127.0.0.1"
	}
	return net.JoinHostPort(name, fmt.Sprint(tcp.Port))
}

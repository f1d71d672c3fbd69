// Command inventory sells the stock of one warehouse from several shops at once, over HTTP. With a lock around each
// sale the shops sell what there is. Without it they sell the same item twice.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	_ "github.com/holdfast-go/holdfast/stores" // all of them, since --store chooses
)

const about = `Several shops sell the stock of one warehouse over HTTP. A lock keeps them from selling an
item twice.

  inventory sale             a warehouse, three shops and many buyers, all in one process
  inventory sale --no-lock   the same without the lock: the shops oversell
  inventory warehouse        a warehouse: keeps the stock, and lets anyone read and write it
  inventory serve            a shop: POST /buy sells one item, GET /stock shows how many there are
  inventory buy              buyers: buy at all shops until nothing is left, and check the account

It exits with 0 if all went well, 1 if something failed or was oversold, and 2 if it was called
wrongly.

Flags:
`

// errUsage marks what is wrong with the command line.
var errUsage = errors.New("see inventory --help")

// options are the flags. A command uses those that concern it.
type options struct {
	addr     string
	items    int
	stockURL string
	store    string
	noLock   bool
	work     time.Duration
	shops    string
	buyers   int
	requests int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program without the process around it. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	command, o, err := parse(args, stdout)
	if err == nil {
		err = command(o, ctx, stdout)
	}
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintln(stderr, "inventory:", strings.ReplaceAll(err.Error(), "\n", "; "))
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

type command func(o *options, ctx context.Context, out io.Writer) error

func parse(args []string, out io.Writer) (command, *options, error) {
	o := &options{}
	fs := flag.NewFlagSet("inventory", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // a mistake gets one line, not a page
	fs.StringVar(&o.addr, "addr", "127.0.0.1:8080", "`host:port` where a warehouse or a shop listens")
	fs.IntVar(&o.items, "items", 100, "how many items a warehouse has at the start")
	fs.StringVar(&o.stockURL, "stock-url", "http://127.0.0.1:8080", "`URL` of the warehouse, for a shop and for buyers")
	fs.StringVar(&o.store, "store", "memory:inventory",
		"`URL` of the store that keeps the locks, the same for all shops")
	fs.BoolVar(&o.noLock, "no-lock", false, "sell without a lock, to see what happens")
	fs.DurationVar(&o.work, "work", 5*time.Millisecond, "how long a sale takes between reading and writing the stock")
	fs.StringVar(&o.shops, "shops", "http://127.0.0.1:8081", "`URLs` of the shops, with commas between, for buyers")
	fs.IntVar(&o.buyers, "buyers", 32, "how many buy at a time")
	fs.IntVar(&o.requests, "requests", 400, "how many requests they send at most")
	name := "--help"
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	run := map[string]command{
		"sale": (*options).sale, "warehouse": (*options).warehouse, "serve": (*options).serve, "buy": (*options).buy,
	}[name]
	if run == nil {
		args = []string{name} // no command: help, or a mistake
	}
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, about)
		fs.SetOutput(out)
		fs.PrintDefaults()
		return nil, nil, err
	case err != nil:
		return nil, nil, fmt.Errorf("%w (%w)", err, errUsage)
	case run == nil || fs.NArg() > 0:
		return nil, nil, fmt.Errorf("unexpected argument %q (%w)", cmp.Or(fs.Arg(0), name), errUsage)
	case o.items < 0 || o.buyers < 1 || o.requests < 1:
		return nil, nil, fmt.Errorf("--items must be at least 0, --buyers and --requests at least 1 (%w)", errUsage)
	}
	return run, o, nil
}

// sale opens a warehouse and three shops on free ports, and lets the buyers in.
func (o *options) sale(ctx context.Context, out io.Writer) (err error) {
	stockURL, closeWarehouse, err := listen("127.0.0.1:0", (&warehouse{count: o.items}).handler())
	if err != nil {
		return err
	}
	closers := []func() error{closeWarehouse} // last: a shop needs it for the sales that are under way
	defer func() {
		for _, closer := range slices.Backward(closers) {
			err = errors.Join(err, closer())
		}
	}()
	var shops []string
	for range 3 {
		url, closeShop, err := o.openShop(ctx, stockURL, "127.0.0.1:0")
		if err != nil {
			return err
		}
		shops, closers = append(shops, url), append(closers, closeShop)
	}
	return rush(ctx, stockURL, shops, o.buyers, o.requests, out)
}

func (o *options) warehouse(ctx context.Context, out io.Writer) error {
	url, closeWarehouse, err := listen(o.addr, (&warehouse{count: o.items}).handler())
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "warehouse with %d items at %s\n", o.items, url)
	<-ctx.Done()
	return closeWarehouse()
}

func (o *options) serve(ctx context.Context, out io.Writer) error {
	url, closeShop, err := o.openShop(ctx, o.stockURL, o.addr)
	if err != nil {
		return err
	}
	how := "with a lock"
	if o.noLock {
		how = "without a lock"
	} else if strings.HasPrefix(o.store, "memory:") {
		how = "with a lock that other processes do not see"
	}
	fmt.Fprintf(out, "shop %s at %s\n", how, url)
	<-ctx.Done()
	return closeShop()
}

func (o *options) buy(ctx context.Context, out io.Writer) error {
	return rush(ctx, o.stockURL, strings.Split(o.shops, ","), o.buyers, o.requests, out)
}

// openShop opens a shop with a client of its own, as a process has, also where several are in one process.
func (o *options) openShop(ctx context.Context, stockURL, addr string) (url string, closeShop func() error, err error) {
	s := &shop{stock: newStock(stockURL), work: payment(o.work)}
	if !o.noLock {
		if s.locks, err = holdfast.Open(ctx, o.store, holdfast.WithLabel("shop at "+addr)); err != nil {
			return "", nil, err
		}
	}
	url, closeSite, err := listen(addr, s.handler())
	if err != nil {
		return "", nil, errors.Join(err, s.close())
	}
	// The last sales finish before the locks are released.
	return url, func() error { return errors.Join(closeSite(), s.close()) }, nil
}

// listen answers HTTP requests on addr; port 0 is any free one. Close lets those that are under way finish.
func listen(addr string, handler http.Handler) (url string, closeSite func() error, err error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return "", nil, err
	}
	const patience = 5 * time.Second
	server := &http.Server{Handler: handler, ReadHeaderTimeout: patience}
	go server.Serve(listener) //nolint:errcheck // it returns when the server is shut down
	return "http://" + listener.Addr().String(), func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return server.Shutdown(ctx)
	}, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	_ "github.com/holdfast-go/holdfast/stores" // all of them, since --store chooses
)

const serveAbout = `A shop. POST /buy sells one item, GET /stock shows how many there are, GET /healthz says
that it runs.

All shops of a warehouse need the same locks, so give them the same --store. Processes of
one machine share a file with sqlite:PATH. With memory: the locks are in this process, and
shops in other processes do not see them.`

// memoryWarning is for those who start a second shop with a store of its own.
const memoryWarning = "inventory: warning: the locks of a memory: store are in this process only; " +
	"shops in other processes are not kept out"

func serveCommand(ctx context.Context, args []string, out, warn io.Writer) error {
	fs := newFlags("serve", serveAbout,
		"inventory serve --addr 127.0.0.1:8081 --stock-url http://127.0.0.1:8080 --store sqlite:shops.db")
	addr := fs.String("addr", "127.0.0.1:8081", "`host:port` to listen on")
	storeURL := fs.String("store", "", "`URL` of the store that keeps the locks")
	rawStockURL := fs.String("stock-url", "", "`URL` of the warehouse")
	noLock := fs.Bool("no-lock", false, "sell without a lock, to see what happens")
	work := fs.Duration("work", 5*time.Millisecond, "how long a sale takes between reading and writing the stock")
	if err := parse(fs, args, out); err != nil {
		return err
	}
	stockURL, err := baseURL(fs, "stock-url", *rawStockURL)
	if err != nil {
		return err
	}
	if (*storeURL == "") != *noLock {
		return &usageError{fs.Name(), "give either --store or --no-lock"}
	}
	var locks *holdfast.Client
	if !*noLock {
		if locks, err = openLocks(ctx, *storeURL, *addr, warn); err != nil {
			return err
		}
	}
	s := newShop(locks, stockURL, payment(*work))
	return runShop(ctx, s, *addr, out)
}

// openLocks opens the store for the shop at addr. Whoever looks at a lock sees that address.
func openLocks(ctx context.Context, storeURL, addr string, warn io.Writer) (*holdfast.Client, error) {
	locks, err := holdfast.Open(ctx, storeURL,
		holdfast.Label("shop at "+addr),
		holdfast.Logger(slog.New(slog.NewTextHandler(warn, nil))))
	if err != nil {
		return nil, err
	}
	if scheme, _, _ := strings.Cut(storeURL, ":"); strings.EqualFold(scheme, "memory") {
		fmt.Fprintln(warn, memoryWarning)
	}
	return locks, nil
}

// runShop serves until ctx is done. The last sales finish before the locks are given back.
func runShop(ctx context.Context, s *shop, addr string, out io.Writer) error {
	site, err := openSite(addr, s.handler())
	if err != nil {
		return errors.Join(err, s.close())
	}
	how := "with a lock"
	if s.locks == nil {
		how = "without a lock"
	}
	fmt.Fprintf(out, "shop %s at %s\n", how, site.url)
	err = site.run(ctx)
	return errors.Join(err, s.close())
}

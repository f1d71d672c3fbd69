package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/child"
	_ "github.com/holdfast-go/holdfast/sqlstore/sqlite" // for the file that the demo makes if it is given no store
	"github.com/holdfast-go/holdfast/store"
)

// Limits of a sale. One worker is killed, one is stopped, and one continues.
const (
	minWorkers, maxWorkers = 3, 16
	minItems, maxItems     = 20, 10_000
)

// shortTTL is the ttl of the naive lock and of Holdfast's. It is short, so that workers do not wait long for a killed
// holder. The store may require more.
const shortTTL = time.Second

// A Plan describes a demo.
type Plan struct {
	Items   int
	Workers int
	Store   string                              // URL of the store for Holdfast; empty: a SQLite file of the demo's own
	Command func(ctx context.Context) *exec.Cmd // a process that runs Work on its standard input and output
	Out     io.Writer
	Plain   bool // plain lines, also on a terminal
}

// Check returns an error if the plan is invalid.
func (p *Plan) Check() error {
	switch {
	case p.Workers < minWorkers || p.Workers > maxWorkers:
		return fmt.Errorf("holdfast: the demo needs %d to %d workers: one is killed, one is stopped, and one continues",
			minWorkers, maxWorkers)
	case p.Items < minItems || p.Items > maxItems:
		return fmt.Errorf("holdfast: the demo needs %d to %d items", minItems, maxItems)
	}
	if p.Store == "" {
		return nil
	}
	at, err := store.ParseLocation(p.Store)
	if err != nil {
		return fmt.Errorf("holdfast: %w", err)
	}
	if at.Scheme == "memory" {
		return errors.New("holdfast: a memory: store is inside one process, and the demo's workers are several")
	}
	return nil
}

// Run sells the stock three times and prints the results. It returns an error if a round did not show what it should.
// When it returns, also because ctx is done, no process and no file of the demo is left.
func Run(ctx context.Context, p *Plan) error {
	return (&run{Plan: p, pausable: child.CanPause}).run(ctx)
}

// A run executes a plan.
type run struct {
	*Plan
	pausable bool
	screen   screen
	folder   string
}

func (r *run) run(ctx context.Context) (err error) {
	if err := r.Check(); err != nil {
		return err
	}
	if r.folder, err = os.MkdirTemp("", "holdfast-demo-"); err != nil {
		return fmt.Errorf("holdfast: the demo cannot create its folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.folder)) }()
	locks, err := r.openStore(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locks.close()) }()

	if r.screen == nil {
		r.screen = newScreen(r.Out, r.Plain)
	}
	r.introduce()
	rounds := []*round{r.unlocked(), r.naive(), r.fenced(locks)}
	for i, round := range rounds {
		r.screen.say(r.screen.style().bold(fmt.Sprintf("Round %d: %s", i+1, round.title)))
		if err := round.run(ctx); err != nil {
			return &holdfast.Error{Op: fmt.Sprintf("round %d", i+1), Err: err}
		}
		r.screen.say("")
	}
	r.tabulate(rounds)
	if err := r.verdict(rounds); err != nil {
		return err
	}
	r.conclude()
	return nil
}

// openStore opens the store for Holdfast: that of the plan, or a file of the demo's own.
func (r *run) openStore(ctx context.Context) (*demoStore, error) {
	if r.Store != "" {
		return openStore(ctx, r.Store)
	}
	locks, err := openStore(ctx, store.Location{Scheme: "sqlite", Path: filepath.Join(r.folder, "locks.db")}.String())
	if err == nil {
		locks.displayName = "a SQLite file"
	}
	return locks, err
}

// verdict returns an error if a round did not show what it should.
func (r *run) verdict(rounds []*round) error {
	for i, round := range rounds {
		check := round.account.showsHarm()
		if round.order.Fence {
			check = round.account.showsSafety(r.pausable)
		}
		if check != nil {
			return fmt.Errorf("holdfast: round %d did not show what it should: %w", i+1, check)
		}
	}
	return nil
}

func (r *run) unlocked() *round {
	return r.round("no lock", "no lock", order{Lock: noLock, TTL: shortTTL})
}

func (r *run) naive() *round {
	return r.round("naive lock", fmt.Sprintf("a naive lock, which expires after %v", shortTTL),
		order{Lock: naiveLock, Name: "stock", TTL: shortTTL})
}

func (r *run) fenced(locks *demoStore) *round {
	title := fmt.Sprintf("Holdfast on %s, with leases of %v and a fence at the stock", locks.displayName, locks.ttl)
	round := r.round("Holdfast", title,
		order{Lock: holdfastLock, Fence: true, Store: locks.url, Name: locks.name, TTL: locks.ttl})
	round.takeover = locks.takeover
	return round
}

// round returns a round with a stock of its own.
func (r *run) round(name, title string, o order) *round {
	o.Stock = filepath.Join(r.folder, string(o.Lock)+".db")
	return &round{
		name: name, title: title, order: o, workers: r.Workers, command: r.Command, pausable: r.pausable,
		takeover: o.TTL, screen: r.screen, account: account{items: r.Items},
	}
}

// unique returns a name that is not in use, since the store may be shared.
func unique() string { return "holdfast-demo-" + rand.Text() }

// A demoStore is the store that the coordinator uses. It reads the abilities of the store before the first round, and
// leaves nothing in it after the last.
type demoStore struct {
	url         string
	displayName string
	name        string // of the lock
	ttl         time.Duration
	takeover    time.Duration
	locks       *holdfast.Client
}

func openStore(ctx context.Context, url string) (*demoStore, error) {
	at, err := store.ParseLocation(url)
	if err != nil {
		return nil, fmt.Errorf("holdfast: %w", err)
	}
	if at.TTL == 0 { // a store with sessions uses it as their ttl
		url += separator(url) + "ttl=" + shortTTL.String()
		at.TTL = shortTTL
	}
	s, err := store.Open(ctx, at)
	if err != nil {
		return nil, &holdfast.Error{Op: "open", Store: at.ShownFor(err), Err: err}
	}
	can := s.Abilities()
	h := &demoStore{url: url, displayName: can.Store, name: unique(), ttl: max(shortTTL, can.MinTTL, can.SessionTTL)}
	h.takeover = time.Duration(can.TakeoverTTLs)*h.ttl + can.TakeoverPlus
	h.locks = holdfast.New(s, holdfast.WithTTL(h.ttl))
	return h, nil
}

// separator returns what precedes another parameter of a URL.
func separator(url string) string {
	if strings.Contains(url, "?") {
		return "&"
	}
	return "?"
}

// close removes the claims of killed workers from the queue, and closes the store.
func (h *demoStore) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	return errors.Join(h.sweep(ctx), h.locks.Close())
}

func (h *demoStore) sweep(ctx context.Context) error {
	queue, err := h.locks.Inspect(ctx, h.name)
	if err != nil {
		return err
	}
	for _, entry := range queue.Entries {
		if err := h.locks.Break(ctx, h.name, entry.Token); err != nil && !errors.Is(err, holdfast.ErrNotHeld) {
			return err
		}
	}
	return nil
}

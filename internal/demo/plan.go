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

// What a sale needs at least and can be at most. One worker is killed, one is stopped, and one goes on.
const (
	minWorkers, maxWorkers = 3, 16
	minItems, maxItems     = 20, 10_000
)

// shortTTL is how long the locks last unrenewed, of the naive lock and of Holdfast alike. It is short so that nobody
// waits long for the dead; the store may want more.
const shortTTL = time.Second

// A Plan says what is sold, by how many, and who watches.
type Plan struct {
	Items   int
	Workers int
	Store   string                              // URL of the store for Holdfast; empty: a SQLite file of the demo's own
	Command func(ctx context.Context) *exec.Cmd // a process that runs Work on its standard input and output
	Out     io.Writer
	Plain   bool // plain lines, also on a terminal
}

// Check says what is wrong with a plan.
func (p *Plan) Check() error {
	switch {
	case p.Workers < minWorkers || p.Workers > maxWorkers:
		return fmt.Errorf("holdfast: the demo needs %d to %d workers: one is killed, one is stopped, and one goes on",
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

// Run sells the stock three times and shows what came of it. The error says which round did not show what it is for.
// When it returns, also because ctx is done, no process and no file of the demo is left.
func Run(ctx context.Context, p *Plan) error {
	return (&run{Plan: p, pausable: child.CanPause}).run(ctx)
}

// A run is a plan that is carried out.
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
		return fmt.Errorf("holdfast: the demo has no place for its files: %w", err)
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

// openStore opens the store for Holdfast: the reader's, or a file of the demo's own.
func (r *run) openStore(ctx context.Context) (*demoStore, error) {
	if r.Store != "" {
		return openStore(ctx, r.Store)
	}
	locks, err := openStore(ctx, store.Location{Scheme: "sqlite", Path: filepath.Join(r.folder, "locks.db")}.String())
	if err == nil {
		locks.place = "a SQLite file"
	}
	return locks, err
}

// verdict checks that each round showed what it is for.
func (r *run) verdict(rounds []*round) error {
	for i, round := range rounds {
		check := round.account.showsHarm()
		if round.order.Fence {
			check = round.account.showsSafety(r.pausable)
		}
		if check != nil {
			return fmt.Errorf("holdfast: round %d did not show what it is for: %w", i+1, check)
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
	round := r.round("Holdfast", fmt.Sprintf("Holdfast on %s, with leases of %v and a fence at the stock", locks.place, locks.ttl),
		order{Lock: holdfastLock, Fence: true, Store: locks.url, Name: locks.name, TTL: locks.ttl})
	round.takeover = locks.takeover
	return round
}

// round makes a round with a stock of its own.
func (r *run) round(name, title string, o order) *round {
	o.Stock = filepath.Join(r.folder, string(o.Lock)+".db")
	return &round{
		name: name, title: title, order: o, workers: r.Workers, command: r.Command, pausable: r.pausable,
		takeover: o.TTL, screen: r.screen, account: account{items: r.Items},
	}
}

// unique is a name that nobody else uses, in a store that may be somebody's.
func unique() string { return "holdfast-demo-" + rand.Text() }

// A demoStore is the store for Holdfast as the coordinator uses it. It learns what the store can do before the first
// round, and leaves nothing in it after the last.
type demoStore struct {
	url      string
	place    string // for people
	name     string // of the one lock
	ttl      time.Duration
	takeover time.Duration
	locks    *holdfast.Client
}

func openStore(ctx context.Context, url string) (*demoStore, error) {
	at, err := store.ParseLocation(url)
	if err != nil {
		return nil, fmt.Errorf("holdfast: %w", err)
	}
	if at.TTL == 0 { // a store whose time is a session takes it from there
		url += separator(url) + "ttl=" + shortTTL.String()
		at.TTL = shortTTL
	}
	s, err := store.Open(ctx, at)
	if err != nil {
		return nil, &holdfast.Error{Op: "open", Store: at.ShownFor(err), Err: err}
	}
	can := s.Abilities()
	h := &demoStore{url: url, place: can.Store, name: unique(), ttl: max(shortTTL, can.MinTTL, can.SessionTTL)}
	h.takeover = time.Duration(can.TakeoverTTLs)*h.ttl + can.TakeoverPlus
	h.locks = holdfast.New(s, holdfast.WithTTL(h.ttl))
	return h, nil
}

// separator is what comes before a further parameter of a URL.
func separator(url string) string {
	if strings.Contains(url, "?") {
		return "&"
	}
	return "?"
}

// close takes out whoever was killed and still stands in the line, and closes the store.
func (h *demoStore) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	return errors.Join(h.sweep(ctx), h.locks.Close())
}

func (h *demoStore) sweep(ctx context.Context) error {
	line, err := h.locks.Inspect(ctx, h.name)
	if err != nil {
		return err
	}
	for _, place := range line.Entries {
		if err := h.locks.Break(ctx, h.name, place.Token); err != nil && !errors.Is(err, holdfast.ErrNotHeld) {
			return err
		}
	}
	return nil
}

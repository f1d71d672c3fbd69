package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/store"
)

func init() { store.Register("sqlite", openURL) }

// MinTTL and MaxTTL bound the ttl of a claim.
const (
	MinTTL = 50 * time.Millisecond
	MaxTTL = 7 * 24 * time.Hour
)

func openURL(ctx context.Context, at store.Location) (store.Store, error) {
	if err := at.Allow(); err != nil {
		return nil, err
	}
	if len(at.Hosts) > 0 || at.User != nil {
		return nil, errors.New("a SQLite store has no host: write sqlite:PATH, as in sqlite:/var/lib/app/locks.db")
	}
	s, err := Open(ctx, at.Path, Prefix(at.Prefix))
	if err != nil {
		return nil, err
	}
	return s, nil
}

// An Option is a setting of a store.
type Option func(*engine)

// Prefix separates tenants: stores with different prefixes never see each other's names.
func Prefix(prefix string) Option { return func(e *engine) { e.prefix = prefix } }

// Open opens the SQLite file at path, and makes it if it is not there. The folder must be there.
func Open(ctx context.Context, path string, options ...Option) (*sqlstore.Store, error) {
	e, err := newEngine(ctx, path, options...)
	if err != nil {
		return nil, err
	}
	return sqlstore.New(e), nil
}

func newEngine(ctx context.Context, path string, options ...Option) (*engine, error) {
	switch path {
	case "":
		return nil, errors.New("which file? write sqlite:PATH, as in sqlite:/var/lib/app/locks.db")
	case ":memory:":
		return nil, errors.New("a file in memory is seen by nobody else: for locks within one process open memory: instead")
	}
	full, err := resolve(path)
	if err != nil {
		return nil, fmt.Errorf("the path %q: %w", path, err)
	}
	e := &engine{
		path: full, wall: time.Now, claims: map[store.ID]struct{}{},
		wake: make(chan struct{}, 1), quit: make(chan struct{}), turn: make(chan struct{}, 1),
	}
	if e.clock, err = readClock(); err != nil {
		return nil, e.fault(err)
	}
	e.bell.folder = full + "-wake"
	e.queue.folder = e.bell.folder
	for _, o := range options {
		o(e)
	}
	e.worker.Go(e.work)
	bounded, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if e.identity, err = ask(bounded, e, (*transaction).identity); err != nil {
		_ = e.Close()
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = e.fault(fmt.Errorf("another program has been writing to it for %v", openTimeout))
		}
		return nil, err
	}
	_ = e.Sweep(bounded) // what it cannot remove is in nobody's way here
	return e, nil
}

// openTimeout bounds Open.
const openTimeout = 10 * time.Second

// resolve makes a path one that all processes mean alike: absolute, and without symbolic links, since the sockets lie
// beside the file itself.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	for range 40 { // links that lead to links
		if err != nil {
			break
		}
		if direct, err := filepath.EvalSymlinks(path); err == nil {
			return direct, nil
		}
		target, notLink := os.Readlink(path)
		if notLink != nil { // it is not there yet
			if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
				path = filepath.Join(folder, filepath.Base(path))
			}
			return path, nil
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return path, err
}

// Abilities implements sqlstore.Engine.
func (e *engine) Abilities() store.Abilities {
	return store.Abilities{
		Store:        e.String(),
		Identity:     e.identity + "/" + e.prefix,
		Line:         true,
		Shared:       true,
		Grace:        true,
		MinTTL:       MinTTL,
		MaxTTL:       MaxTTL,
		TakeoverTTLs: 1,
		TakeoverPlus: 100 * time.Millisecond,
		ExactWake:    true,
		Tokens:       store.SurvivesRestart | store.SurvivesDataLoss | store.SurvivesClockBack,
	}
}

// String names the store for people.
func (e *engine) String() string { return "sqlite at " + e.path }

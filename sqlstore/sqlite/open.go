package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

func init() { store.Register("sqlite", openURL) }

// MinTTL and MaxTTL bound the ttl of a claim.
const (
	MinTTL = 50 * time.Millisecond
	MaxTTL = 7 * 24 * time.Hour
)

func openURL(ctx context.Context, at store.Location) (store.Store, error) {
	if err := at.Allow("shared"); err != nil {
		return nil, err
	}
	if len(at.Hosts) > 0 || at.User != nil {
		return nil, errors.New("a SQLite store has no host: write sqlite:PATH, as in sqlite:/var/lib/app/locks.db")
	}
	options := []Option{WithPrefix(at.Prefix)}
	if at.Query.Has("shared") {
		if at.Query.Get("shared") != "yes" {
			return nil, errors.New("shared is yes, or is left out")
		}
		options = append(options, WithShared())
	}
	s, err := Open(ctx, at.Path, options...)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// An Option configures a store.
type Option func(*engine)

// WithPrefix sets a prefix that separates tenants: stores with different prefixes never see each other's names.
func WithPrefix(prefix string) Option { return func(e *engine) { e.prefix = prefix } }

// WithShared is for users who share a file on purpose. None of them is protected from the others: the file and its
// folder may belong to another user, links of any user are followed, and a new file is accessible to its group too
// (0660). In a URL it is ?shared=yes. The folder should have that group and the setgid bit, so that all files in it
// have the group.
//
// Without WithShared a file is refused if another user owns it or can replace or write it. That user could otherwise
// remove locks, or have tables added to another database by a link. Root and the owner of the root folder are trusted.
func WithShared() Option { return func(e *engine) { e.shared = true } }

// Open returns a store in the SQLite file at path. It creates the file if it does not exist; the folder must exist. It
// returns a *store.Fault if the file cannot be used, and store.ErrFormat if a newer version has written it.
func Open(ctx context.Context, path string, options ...Option) (*sqlstore.Store, error) {
	e, err := newEngine(ctx, path, options...)
	if err != nil {
		return nil, err
	}
	return newStore(e), nil
}

// newStore returns a store that uses an engine of this package. Client and database have the same clock.
func newStore(e sqlstore.Engine) *sqlstore.Store {
	f := frame.New(frame.Config{Name: e.Abilities().Store, Drift: frame.OneClock, PushesWithCalls: true})
	pace := sqlstore.Pace{First: time.Millisecond, Most: 50 * time.Millisecond, Listening: 200 * time.Millisecond}
	return sqlstore.New(e, f, pace)
}

func newEngine(ctx context.Context, path string, options ...Option) (*engine, error) {
	switch path {
	case "":
		return nil, errors.New("which file? write sqlite:PATH, as in sqlite:/var/lib/app/locks.db")
	case ":memory:":
		return nil, errors.New(
			"a file in memory is seen by nobody else: for locks within one process open memory: instead",
		)
	}
	e := &engine{
		path: path, wall: time.Now,
		wake: make(chan struct{}, 1), quit: make(chan struct{}), turn: make(chan struct{}, 1),
	}
	var err error
	if e.clock, err = readClock(); err != nil {
		return nil, e.fault(err)
	}
	for _, o := range options {
		o(e)
	}
	full, err := resolve(path, e.shared)
	if err != nil {
		return nil, e.fault(err)
	}
	e.path = full
	e.notifier.folder, e.notifier.shared = cmp.Or(e.notifier.folder, full+"-wake"), e.shared
	e.queue.folder, e.queue.shared = e.notifier.folder, e.shared
	e.worker.Go(e.work)
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if e.identity, err = write(bounded, e, (*transaction).identity); err != nil {
		_ = e.Close()
		if errors.Is(err, context.DeadlineExceeded) {
			took := time.Since(began).Round(time.Millisecond)
			err = e.fault(fmt.Errorf("another program has been writing to it for %v: %w", took, err))
		}
		return nil, err
	}
	_ = e.Sweep(bounded) // a failure is harmless: expired claims block no client
	return e, nil
}

// openTimeout bounds Open.
const openTimeout = 10 * time.Second

// Abilities implements sqlstore.Engine.
func (e *engine) Abilities() store.Abilities {
	return store.Abilities{
		Store:        e.String(),
		Identity:     e.identity + "/" + e.prefix,
		Queue:        true,
		Shared:       true,
		Grace:        true,
		Detach:       true,
		MinTTL:       MinTTL,
		MaxTTL:       MaxTTL,
		TakeoverTTLs: 1,
		TakeoverPlus: 100 * time.Millisecond,
		Tokens:       store.SurvivesRestart | store.SurvivesDataLoss | store.SurvivesClockBack,
	}
}

// String returns the name of the store for errors.
func (e *engine) String() string { return "sqlite at " + e.path }

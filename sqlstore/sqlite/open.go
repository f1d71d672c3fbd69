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

// An Option is a setting of a store.
type Option func(*engine)

// Prefix separates tenants: stores with different prefixes never see each other's names.
func WithPrefix(prefix string) Option { return func(e *engine) { e.prefix = prefix } }

// Shared is for users who share a file knowingly: none of them is protected from the others. The file and its folder
// may belong to another user, links are followed whoever made them, and a file that is made is for its group too
// (0660). By URL it is ?shared=yes. The folder should have the group, and the setgid bit, so that all that is made in
// it has the group.
//
// Without it, a file is refused if another user owns it or can replace or write it: one who made it first, or put a
// link in its place, could take locks away, or have tables added to a database that is not his. Root and whoever owns
// the root folder are trusted.
func WithShared() Option { return func(e *engine) { e.shared = true } }

// Open opens the SQLite file at path, and makes it if it is not there. The folder must be there.
func Open(ctx context.Context, path string, options ...Option) (*sqlstore.Store, error) {
	e, err := newEngine(ctx, path, options...)
	if err != nil {
		return nil, err
	}
	return newStore(e), nil
}

// newStore returns a store of an engine of this package. Client and database have one clock.
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
		return nil, errors.New("a file in memory is seen by nobody else: for locks within one process open memory: instead")
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
	e.bell.folder, e.bell.shared = cmp.Or(e.bell.folder, full+"-wake"), e.shared
	e.queue.folder, e.queue.shared = e.bell.folder, e.shared
	e.worker.Go(e.work)
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if e.identity, err = ask(bounded, e, (*transaction).identity); err != nil {
		_ = e.Close()
		if errors.Is(err, context.DeadlineExceeded) {
			took := time.Since(began).Round(time.Millisecond)
			err = e.fault(fmt.Errorf("another program has been writing to it for %v: %w", took, err))
		}
		return nil, err
	}
	_ = e.Sweep(bounded) // what it cannot remove is in nobody's way here
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
		MinTTL:       MinTTL,
		MaxTTL:       MaxTTL,
		TakeoverTTLs: 1,
		TakeoverPlus: 100 * time.Millisecond,
		Tokens:       store.SurvivesRestart | store.SurvivesDataLoss | store.SurvivesClockBack,
	}
}

// String names the store for people.
func (e *engine) String() string { return "sqlite at " + e.path }

package cli

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
	_ "github.com/holdfast-go/holdfast/stores" // all of them, by URL
)

// storeEnv has the URL of the store if --store is not given. Unlike a flag it is not visible in a list of processes.
const storeEnv = "HOLDFAST_STORE"

// locate returns the location of the store: that of --store, else that of the environment, else the file in the user's
// state folder.
func (a *app) locate() (store.Location, error) {
	from, raw := "--store", a.storeURL
	if raw == "" {
		var given bool
		from = storeEnv
		switch raw, given = os.LookupEnv(storeEnv); {
		case !given:
			return defaultLocation()
		case raw == "":
			return store.Location{}, usageError("%s is empty; unset it to use the default", storeEnv)
		}
	}
	at, err := store.ParseLocation(raw)
	if err != nil {
		return at, usageError("%s: %w", from, err)
	}
	if from == storeEnv && at.Masked() {
		return at, usageError("a part of %s is masked, because holdfast run passes no password to its command; "+
			"give this command --store, or its own %s", storeEnv, storeEnv)
	}
	return at, nil
}

// rawStore returns the URL of the store that locate returned, as it was given: with its password. If none was given, it
// is that of the default file, which has no secrets.
func (a *app) rawStore(at store.Location) string {
	return cmp.Or(a.storeURL, os.Getenv(storeEnv), at.String())
}

// defaultLocation returns the location of the file in the user's state folder.
func defaultLocation() (store.Location, error) {
	folder, err := stateFolder()
	if err != nil {
		return store.Location{}, usageError("no folder for locks: %w; give --store or %s", err, storeEnv)
	}
	return store.Location{
		Scheme: "sqlite",
		Path:   filepath.Join(folder, "holdfast", "locks.db"),
		Query:  url.Values{},
	}, nil
}

// isDefault reports whether at is the default location, be it given explicitly or not.
func isDefault(at store.Location) bool {
	usual, err := defaultLocation()
	return err == nil && at.Scheme == usual.Scheme && at.Path == usual.Path
}

// locateToWrite is locate for commands that create the default file.
func (a *app) locateToWrite() (store.Location, error) {
	at, err := a.locate()
	if err != nil {
		return at, err
	}
	return at, makeStateFolder(at)
}

// makeStateFolder creates the folder of the default location, with access for the user only. It does nothing for other
// locations.
func makeStateFolder(at store.Location) error {
	if !isDefault(at) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(at.Path), 0o700); err != nil {
		return exitWith(exitStore, "cannot make the folder for locks: %w", err)
	}
	return nil
}

// stateFolder returns the folder where programs keep state between runs.
func stateFolder() (string, error) {
	switch runtime.GOOS {
	case "windows":
		if folder := os.Getenv("LocalAppData"); folder != "" {
			return folder, nil
		}
		return "", errors.New("%LocalAppData% is not set")
	case "darwin":
		return os.UserConfigDir() // ~/Library/Application Support
	}
	if folder := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(folder) { // its specification ignores relative paths
		return folder, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state"), err
}

// absolute returns the location with an absolute path, for a command that may run in another folder.
func absolute(at store.Location) store.Location {
	if at.Scheme == "sqlite" && len(at.Hosts) == 0 && at.Path != "" {
		if path, err := filepath.Abs(at.Path); err == nil {
			at.Path = path
		}
	}
	return at
}

// A session is an open store with its client and abilities.
type session struct {
	*holdfast.Client
	store     store.Store
	at        store.Location
	abilities store.Abilities
	inherit   func() (end func(), err error) // of store.Inheritor, if the store is one
}

// requestWithin bounds the calls of commands that only read the store.
const requestWithin = 30 * time.Second

// withStore calls do with the store, for the commands that only read locks.
func (a *app) withStore(ctx context.Context, do func(context.Context, *session) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	s, err := a.openToRead(ctx)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // it held nothing
	return do(ctx, s)
}

// openToRead connects to the store, and does not create it. A file that does not exist has no locks: an empty store in
// memory takes its place.
func (a *app) openToRead(ctx context.Context) (*session, error) {
	at, err := a.locate()
	if err != nil {
		return nil, err
	}
	if isMissing(at) {
		empty := memstore.New()
		return &session{
			Client: holdfast.New(empty), store: empty, at: at,
			abilities: store.Abilities{Store: "sqlite at " + at.Path},
		}, nil
	}
	return openAt(ctx, at)
}

// isMissing reports whether at is a file that does not exist, in a folder that exists or that run would create.
func isMissing(at store.Location) bool {
	if at.Scheme != "sqlite" || len(at.Hosts) > 0 || at.Path == "" {
		return false
	}
	if _, err := os.Stat(at.Path); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	_, err := os.Stat(filepath.Dir(at.Path))
	return err == nil || isDefault(at)
}

// openSoon is openAt within requestWithin.
func openSoon(ctx context.Context, at store.Location) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	return openAt(ctx, at)
}

func openAt(ctx context.Context, at store.Location) (*session, error) {
	s, err := store.Open(ctx, at)
	if err != nil {
		code := exitUsage
		if _, fault := errors.AsType[*store.Fault](err); fault || errors.Is(err, store.ErrFormat) || ctx.Err() != nil {
			code = exitStore
		}
		return nil, &exitError{code, &holdfast.Error{Op: "open", Store: at.ShownFor(err), Err: err}}
	}
	var options []holdfast.Option
	if at.TTL > 0 && s.Abilities().SessionTTL == 0 { // a session has it already
		options = append(options, holdfast.WithTTL(at.TTL))
	}
	inherit := func() (func(), error) { return func() {}, nil }
	if i, ok := s.(store.Inheritor); ok {
		inherit = i.Inherit
	}
	return &session{holdfast.New(s, options...), s, at, s.Abilities(), inherit}, nil
}

package cli

import (
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

// storeEnv names the store where --store does not. Unlike a flag it is not seen in a list of processes.
const storeEnv = "HOLDFAST_STORE"

// locate says which store is meant: that of --store, else of the environment, else the file in the user's state folder.
func (a *app) locate() (store.Location, error) {
	from, raw := "--store", a.storeURL
	if raw == "" {
		var given bool
		from = storeEnv
		switch raw, given = os.LookupEnv(storeEnv); {
		case !given:
			return defaultLocation()
		case raw == "":
			return store.Location{}, usageError("%s is empty; unset it for the default", storeEnv)
		}
	}
	at, err := store.ParseLocation(raw)
	if err != nil {
		return at, usageError("%s: %w", from, err)
	}
	if from == storeEnv && at.Masked() {
		return at, usageError("a part of %s is masked, because holdfast run hands no password on to its command; "+
			"give this command --store, or its own %s", storeEnv, storeEnv)
	}
	return at, nil
}

// defaultLocation is the file in the user's state folder.
func defaultLocation() (store.Location, error) {
	folder, err := stateFolder()
	if err != nil {
		return store.Location{}, usageError("where to keep locks? %w; give --store or %s", err, storeEnv)
	}
	return store.Location{Scheme: "sqlite", Path: filepath.Join(folder, "holdfast", "locks.db"), Query: url.Values{}}, nil
}

// isDefault reports whether at is the default location, given or not.
func isDefault(at store.Location) bool {
	usual, err := defaultLocation()
	return err == nil && at.Scheme == usual.Scheme && at.Path == usual.Path
}

// makeStateFolder makes the folder of the default location, for the user alone, if that is where the store is.
func makeStateFolder(at store.Location) error {
	if !isDefault(at) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(at.Path), 0o700); err != nil {
		return exitWith(exitStore, "cannot make the folder for locks: %w", err)
	}
	return nil
}

// stateFolder is where programs keep what they need from one run to the next.
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
	if folder := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(folder) { // others are to be ignored, says its specification
		return folder, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state"), err
}

// absolute is the location as a command sees it that may run in another folder.
func absolute(at store.Location) store.Location {
	if at.Scheme == "sqlite" && len(at.Hosts) == 0 && at.Path != "" {
		if path, err := filepath.Abs(at.Path); err == nil {
			at.Path = path
		}
	}
	return at
}

// A session is an open store, and what it can do.
type session struct {
	*holdfast.Client
	store     store.Store
	at        store.Location
	abilities store.Abilities
	inherit   func() (end func(), err error) // of store.Inheritor, if the store is one
}

// askWithin bounds how long a store is asked by the commands that only look.
const askWithin = 30 * time.Second

// look does something with the store that is meant, for the commands that look at locks.
func (a *app) look(ctx context.Context, do func(context.Context, *session) error) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	s, err := a.openToLook(ctx)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // it held nothing
	return do(ctx, s)
}

// openToLook connects to the store, and does not make it. A file that is not there has no locks: an empty store in
// memory stands for it.
func (a *app) openToLook(ctx context.Context) (*session, error) {
	at, err := a.locate()
	if err != nil {
		return nil, err
	}
	if isMissing(at) {
		empty := memstore.New()
		return &session{
			Client: holdfast.New(empty), store: empty, at: at, abilities: store.Abilities{Store: "sqlite at " + at.Path},
		}, nil
	}
	return openAt(ctx, at)
}

// isMissing reports whether at is a file that is not there, in a folder that is there or is the one that run makes.
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
	if at.TTL > 0 && s.Abilities().SessionTTL == 0 { // of a session it is the ttl already
		options = append(options, holdfast.WithTTL(at.TTL))
	}
	inherit := func() (func(), error) { return func() {}, nil }
	if i, ok := s.(store.Inheritor); ok {
		inherit = i.Inherit
	}
	return &session{holdfast.New(s, options...), s, at, s.Abilities(), inherit}, nil
}

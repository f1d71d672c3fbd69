package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// An Opener connects to the store at a location. It refuses unknown parameters ([Location.Allow]).
type Opener func(ctx context.Context, at Location) (Store, error)

var registry = struct {
	sync.Mutex
	openers map[string]Opener
}{openers: map[string]Opener{}}

// Register registers a store under the scheme of its URLs, for Open. A store's package calls it from init. It panics if
// the scheme is registered already: two stores for one scheme are a mistake in the program.
func Register(scheme string, open Opener) {
	registry.Lock()
	defer registry.Unlock()
	if _, taken := registry.openers[scheme]; taken {
		panic("holdfast: the scheme " + scheme + " is registered twice")
	}
	registry.openers[scheme] = open
}

// Open connects to the store at a location. It returns an error if no store is registered for the scheme, and otherwise
// the error of the store's Opener.
func Open(ctx context.Context, at Location) (Store, error) {
	registry.Lock()
	open, known := registry.openers[at.Scheme], slices.Sorted(maps.Keys(registry.openers))
	registry.Unlock()
	if open == nil {
		return nil, fmt.Errorf("no store is registered for the URL's scheme (known: %s); import the store's "+
			"package, or holdfast/stores for all", strings.Join(known, ", "))
	}
	return open(ctx, at)
}

// Rejected reports whether an error of Open is about the location itself, as opposed to the store that it identifies.
// Such a location must not be printed, not even masked: a part of it may be a password in the wrong position.
func Rejected(err error) bool {
	_, fault := errors.AsType[*Fault](err)
	return err != nil && !fault && !errors.Is(err, ErrFormat) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// ShownFor returns the location as a message about err, an error of Open, may show it: masked, or empty if the location
// was rejected.
func (l Location) ShownFor(err error) string {
	if Rejected(err) {
		return ""
	}
	return l.String()
}

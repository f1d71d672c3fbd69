package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// An Opener connects to the store at a location. It refuses parameters that it does not know (Location.Allow).
type Opener func(ctx context.Context, at Location) (Store, error)

var registry = struct {
	sync.Mutex
	openers map[string]Opener
}{openers: map[string]Opener{}}

// Register lets Open find a store by its URL's scheme. A store's package calls it from init. It panics if the
// scheme is taken: two stores for one scheme is a mistake in the program.
func Register(scheme string, open Opener) {
	registry.Lock()
	defer registry.Unlock()
	if _, taken := registry.openers[scheme]; taken {
		panic("holdfast: the scheme " + scheme + " is registered twice")
	}
	registry.openers[scheme] = open
}

// Open connects to the store that at names.
func Open(ctx context.Context, at Location) (Store, error) {
	registry.Lock()
	open := registry.openers[at.Scheme]
	known := make([]string, 0, len(registry.openers))
	for scheme := range registry.openers {
		known = append(known, scheme)
	}
	registry.Unlock()
	if open == nil {
		slices.Sort(known)
		return nil, fmt.Errorf("no store is registered for %q (known: %s); import the store's package, or holdfast/stores for all",
			at.Scheme+":", strings.Join(known, ", "))
	}
	return open(ctx, at)
}

package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/store"
)

// opOpen is the operation of an Error whose Store is a masked URL.
const opOpen = "open"

// Open connects to the store at a URL and makes a client of it. The store's package has to be imported, for
// what it registers, or package stores, which imports all:
//
//	import _ "github.com/holdfast-go/holdfast/memstore"
//
//	locks, err := holdfast.Open(ctx, "memory:")
//
// Every store's URL can have two parameters. prefix is put before every name, for many tenants on one server. ttl sets
// the default ttl, as in ttl=10s; the option TTL comes before it. Errors never show a password, nor any part of a URL
// that is refused.
func Open(ctx context.Context, url string, options ...Option) (*Client, error) {
	if ctx == nil {
		return nil, &Error{Op: opOpen, Err: ErrNilContext}
	}
	at, err := store.ParseLocation(url)
	if err != nil {
		return nil, &Error{Op: opOpen, Err: err}
	}
	s, err := store.Open(ctx, at)
	if err != nil {
		return nil, &Error{Op: opOpen, Store: at.ShownFor(err), Err: err}
	}
	if at.TTL > 0 && s.Abilities().SessionTTL == 0 { // of a session it is the ttl already, as the server granted it
		options = append([]Option{TTL(at.TTL)}, options...)
	}
	c := New(s, options...)
	if c.settings.err != nil {
		c.Close() //nolint:errcheck // the option is what is wrong
		return nil, &Error{Op: opOpen, Store: at.String(), Err: c.settings.err}
	}
	return c, nil
}

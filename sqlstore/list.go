package sqlstore

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

var (
	_ store.Lister  = (*Store)(nil)
	_ store.Watcher = (*Store)(nil)
)

// A PageReader is an Engine that reads many queues with one query, without keeping others from writing.
type PageReader interface {
	// ReadPage returns up to most claims of queues whose names begin with prefix and follow after in the database's
	// order. They are sorted by that order, and then by their positions.
	ReadPage(ctx context.Context, prefix, after string, most int) ([]Listed, error)
}

// A Listed is a claim as it is stored, including one that has expired.
type Listed struct {
	store.Entry
	Newer bool // it is in a format that this program does not read; all else means nothing, but for its name
}

// pageSize is how many claims one query reads.
const pageSize = 500

// Queues implements store.Lister. A queue that needs a change first, such as one with an expired claim, is read on its
// own.
func (s *Store) Queues(ctx context.Context, prefix string) iter.Seq2[store.Queue, error] {
	pages, ok := s.engine.(PageReader)
	if !ok {
		return store.QueuesByName(ctx, s, prefix)
	}
	return func(yield func(store.Queue, error) bool) {
		for after, more := "", true; more; {
			claims, err := s.readPage(ctx, pages, prefix, after)
			if err != nil {
				yield(store.Queue{}, err)
				return
			}
			more = len(claims) == pageSize
			for len(claims) > 0 {
				name := claims[0].Name
				end := slices.IndexFunc(claims, func(c Listed) bool { return c.Name != name })
				whole := end >= 0 || !more
				if end < 0 {
					end = len(claims)
				}
				if !whole && end < pageSize {
					break // the next page begins with it
				}
				after = name
				if !s.yieldListed(ctx, claims[:end], whole && isTidy(claims[:end]), yield) {
					return
				}
				claims = claims[end:]
			}
		}
	}
}

// yieldListed yields the queue of these claims: as they are if they are all of it and there is nothing to be done.
func (s *Store) yieldListed(
	ctx context.Context, claims []Listed, asIs bool, yield func(store.Queue, error) bool,
) (goOn bool) {
	if !asIs {
		return store.YieldQueue(ctx, s, claims[0].Name, yield)
	}
	q := store.Queue{Name: claims[0].Name, Entries: make([]store.Entry, len(claims))}
	for i := range claims {
		q.Entries[i] = claims[i].Entry
	}
	return yield(q, nil)
}

// isTidy reports whether a queue is as Store.Queue would return it: this program reads its format, no claim has
// expired, and the first is held.
func isTidy(claims []Listed) bool {
	untidy := func(c Listed) bool { return c.Newer || c.Left <= 0 }
	return claims[0].State == store.Held && !slices.ContainsFunc(claims, untidy)
}

// readPage returns the next page of claims. The errors are those of [frame.Call.Outcome].
func (s *Store) readPage(ctx context.Context, pages PageReader, prefix, after string) ([]Listed, error) {
	if err := s.frame.Alive(ctx); err != nil {
		return nil, err
	}
	call := s.frame.Call(ctx, frame.AskTimeout)
	defer call.End()
	claims, err := pages.ReadPage(call.Context, prefix, after, pageSize)
	return claims, call.Outcome(err)
}

// watchPause is the interval at which an engine is polled for changes.
const watchPause = 100 * time.Millisecond

// A Version counts the writes of other clients and those of this one, and how often the database was opened.
type Version struct{ Others, Own, Opened int64 }

// A Versioner is an Engine that can report at almost no cost whether anything was written.
type Versioner interface {
	// Version returns a value that differs from the last if anything was written in between, by any client.
	Version(ctx context.Context) (Version, error)
}

// Watch implements store.Watcher for engines that are Versioners. It reports that any queue may have changed.
func (s *Store) Watch(ctx context.Context, _ string, changed func(name string)) error {
	versions, ok := s.engine.(Versioner)
	if !ok {
		return store.ErrUnsupported
	}
	known, lost := Version{}, true
	for {
		if err := s.frame.Alive(ctx); err != nil {
			return err
		}
		within, cancel := context.WithTimeout(ctx, frame.AskTimeout)
		version, err := versions.Version(within)
		cancel()
		switch {
		case err != nil && store.Final(err):
			return s.frame.Fault(ctx, err)
		case err != nil:
			lost = true
		case lost || version != known:
			changed("")
			known, lost = version, false
		}
		select {
		case <-time.After(watchPause):
		case <-ctx.Done():
		case <-s.frame.Life().Done():
		}
	}
}

package store

import (
	"context"
	"errors"
	"iter"
)

// A Watcher is implemented by a Store that can report which queues change, with one subscription however many names
// there are, and at no cost for calls while nothing is watched. A caller polls a store that is not a Watcher, and one
// whose Watch returns ErrUnsupported.
//
// A caller that calls Watch, waits for the first changed(""), and then reads every queue (see [Lister]) misses nothing
// that happens afterwards, except for what is listed at Watch.
type Watcher interface {
	// Watch calls changed with the name of each queue that begins with prefix and may have changed: a claim joined, was
	// granted, left, was broken or expired, or its units, its owner or its turn changed. An empty name means that any
	// of these queues may have changed. It is reported once when the subscription begins, and whenever changes may have
	// been lost, as when a connection broke.
	//
	// changed may be called for a queue that did not change, by any goroutine, also several at once. It must not block,
	// and must not call the store.
	//
	// A store need not report that a claim was renewed, nor what it does not learn by itself: where nothing runs at the
	// server (SQLite), a claim that expires is reported when the next call removes it. So a caller also reads every
	// queue once in a while.
	//
	// Watch returns when ctx is done, with its error, or when the store is closed, with ErrClosed. It returns
	// ErrUnsupported at once if the store cannot watch as it was opened, and another final error if no retry can help,
	// such as a missing permission. It handles all other failures itself, by subscribing again. No goroutine,
	// connection or subscription of it remains when it has returned, and changed is not called any more.
	Watch(ctx context.Context, prefix string, changed func(name string)) error
}

// A Lister is implemented by a Store that reads many queues with few requests.
type Lister interface {
	// Queues yields every queue whose name begins with prefix and that has entries, in no particular order. Each is as
	// [Store.Queue] would return it. Queues that come or go meanwhile may be yielded or not, and none is yielded twice.
	// A queue that cannot be read, because it was written by hand or by a newer version, is yielded with its name, no
	// entries and the error, and does not end the iteration. An error with an empty name does. Queues does not hold up
	// other clients: a store with many queues is read in parts, each of a moment of its own.
	Queues(ctx context.Context, prefix string) iter.Seq2[Queue, error]
}

// Queues yields every queue of s whose name begins with prefix and that has entries, as a [Lister] does. It reads a
// store that is not a Lister name by name.
func Queues(ctx context.Context, s Store, prefix string) iter.Seq2[Queue, error] {
	if l, ok := s.(Lister); ok {
		return l.Queues(ctx, prefix)
	}
	return QueuesByName(ctx, s, prefix)
}

// QueuesByName is Queues with one call of Store.Queue for each name.
func QueuesByName(ctx context.Context, s Store, prefix string) iter.Seq2[Queue, error] {
	return func(yield func(Queue, error) bool) {
		for name, err := range s.Names(ctx, prefix) {
			if err != nil {
				yield(Queue{}, err)
				return
			}
			if !YieldQueue(ctx, s, name, yield) {
				return
			}
		}
	}
}

// YieldQueue reads one queue with Store.Queue, and yields it as a [Lister] must. It reports whether the iteration is to
// go on. It is for Listers that read some queues one by one.
func YieldQueue(ctx context.Context, s Store, name string, yield func(Queue, error) bool) (goOn bool) {
	q, err := s.Queue(ctx, name)
	switch {
	case err != nil && (!Final(err) || errors.Is(err, ErrClosed)):
		yield(Queue{}, err)
		return false
	case err != nil:
		return yield(Queue{Name: name}, err)
	case len(q.Entries) == 0:
		return true
	}
	return yield(q, nil)
}

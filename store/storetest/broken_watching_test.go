package storetest_test

import (
	"context"
	"iter"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

func (b *bug) Watch(ctx context.Context, prefix string, changed func(string)) error {
	if b.watch != nil {
		return b.watch(ctx, prefix, changed)
	}
	return b.honestWatch(ctx, prefix, changed)
}

func (b *bug) honestWatch(ctx context.Context, prefix string, changed func(string)) error {
	return b.Store.(store.Watcher).Watch(ctx, prefix, changed) //nolint:forcetypeassert // memstore is one
}

func (b *bug) Queues(ctx context.Context, prefix string) iter.Seq2[store.Queue, error] {
	if b.queues != nil {
		return b.queues(ctx, prefix)
	}
	return b.honestQueues(ctx, prefix)
}

// honestQueues lists queues with what is wrong in each.
func (b *bug) honestQueues(ctx context.Context, prefix string) iter.Seq2[store.Queue, error] {
	return func(yield func(store.Queue, error) bool) {
		lister := b.Store.(store.Lister) //nolint:forcetypeassert // memstore is one
		for q, err := range lister.Queues(ctx, prefix) {
			if b.shows != nil {
				b.shows(&q)
			}
			if !yield(q, err) {
				return
			}
		}
	}
}

// watches makes a mistake in what Watch reports.
func watches(report func(name string, changed func(string))) func(*broken) {
	return eachStore(func(b *bug) {
		b.watch = func(ctx context.Context, prefix string, changed func(string)) error {
			return b.honestWatch(ctx, prefix, func(name string) { report(name, changed) })
		}
	})
}

// listsQueues puts a bug into what Queues yields: show reports whether a queue is yielded, and may change it.
func listsQueues(show func(q *store.Queue, err *error) bool) func(*broken) {
	return eachStore(func(b *bug) {
		b.queues = func(ctx context.Context, prefix string) iter.Seq2[store.Queue, error] {
			return func(yield func(store.Queue, error) bool) {
				for q, err := range b.honestQueues(ctx, prefix) {
					if show(&q, &err) && !yield(q, err) {
						return
					}
				}
			}
		}
	})
}

var brokenWatching = []mutant{
	{
		"a watch reports only that it has begun",
		0,
		"watching/changes",
		nil,
		watches(func(name string, changed func(string)) {
			if name == "" {
				changed("")
			}
		}),
	},
	{"a watch forgets its prefix", 0, "watching/prefix", nil, eachStore(func(b *bug) {
		b.watch = func(ctx context.Context, _ string, changed func(string)) error {
			return b.honestWatch(ctx, "", changed)
		}
	})},
	{"a watch does not report that it was cut off", 0, "watching/cut off", nil, eachStore(func(b *bug) {
		b.watch = func(ctx context.Context, prefix string, changed func(string)) error {
			var begun atomic.Bool
			return b.honestWatch(ctx, prefix, func(name string) {
				if name != "" || !begun.Swap(true) {
					changed(name)
				}
			})
		}
	})},
	{"a watch ends without an error", 0, "watching/the end", nil, eachStore(func(b *bug) {
		b.watch = func(ctx context.Context, prefix string, changed func(string)) error {
			_ = b.honestWatch(ctx, prefix, changed)
			return nil
		}
	})},
	{"a watch continues after its end", 0, "watching/the end", nil, eachStore(func(b *bug) {
		b.watch = func(ctx context.Context, prefix string, changed func(string)) error {
			go b.honestWatch(context.WithoutCancel(ctx), prefix, changed) //nolint:errcheck // that is the mistake
			return b.honestWatch(ctx, prefix, func(string) {})
		}
	})},
	{"a watch outlives its store", 0, "watching/closed", nil, eachStore(func(b *bug) {
		b.watch = func(ctx context.Context, prefix string, changed func(string)) error {
			_ = b.honestWatch(ctx, prefix, changed)
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour):
			}
			return ctx.Err()
		}
	})},
	{
		"a list has only queues of one claim",
		0,
		"watching/long queues",
		nil,
		listsQueues(func(q *store.Queue, _ *error) bool {
			q.Entries = q.Entries[:min(len(q.Entries), 1)]
			return true
		}),
	},
	{
		"a list has names as they are stored",
		10,
		"names/queues listed",
		nil,
		listsQueues(func(q *store.Queue, _ *error) bool {
			q.Name = strings.ReplaceAll(url.QueryEscape(q.Name), "%2F", "/")
			return true
		}),
	},
	{
		"a list shows states of its own",
		0,
		"watching/long queues",
		[]int{10, 12},
		listsQueues(func(q *store.Queue, _ *error) bool {
			for i := range q.Entries {
				q.Entries[i].State = store.Waiting
			}
			return true
		}),
	},
	{"a list is by a pattern", 10, "names/queues filtered", nil, eachStore(func(b *bug) {
		b.queues = func(ctx context.Context, prefix string) iter.Seq2[store.Queue, error] {
			return func(yield func(store.Queue, error) bool) {
				for q, err := range b.honestQueues(ctx, "") {
					match, _ := path.Match(prefix+"*", strings.ReplaceAll(q.Name, "/", ":"))
					if (err != nil || match || strings.HasPrefix(q.Name, prefix) && prefix != "[a]") && !yield(q, err) {
						return
					}
				}
			}
		}
	})},
	{"a list leaves out what it cannot read", 12, "format/a newer queue in a list", nil,
		listsQueues(func(q *store.Queue, err *error) bool { return *err == nil || q.Name == "" })},
	{"a list ends where it fails", 11, "honest errors/list of queues", nil,
		listsQueues(func(q *store.Queue, err *error) bool { return *err == nil || q.Name != "" })},
}

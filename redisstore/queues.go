package redisstore

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store"
)

var _ store.Lister = (*Store)(nil)

const (
	// queuesBatch is how many queues one run of list.lua reads, which then takes well under 2 ms.
	queuesBatch = 64
	// queuesEach is how many entries of each it reads. A longer queue is read by itself.
	queuesEach = 16
)

// Queues implements store.Lister. In plain mode it returns ErrUnsupported, as Names does.
func (s *Store) Queues(ctx context.Context, prefix string) iter.Seq2[store.Queue, error] {
	return store.Queues(ctx, s.mode, prefix)
}

// Queues implements store.Lister. The server returns its keys page by page, in a cluster one master after the other,
// and a script reads the queues of a page.
func (s *lines) Queues(ctx context.Context, prefix string) iter.Seq2[store.Queue, error] {
	return func(yield func(store.Queue, error) bool) {
		l := lister{lines: s, ctx: ctx, yield: yield}
		err := s.eachPage(ctx, prefix, func(keys []string) error {
			for page := range slices.Chunk(keys, queuesBatch) {
				if err := l.listPage(page); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(store.Queue{}, s.frame.Fault(ctx, err))
		}
	}
}

// A lister is one call of Queues.
type lister struct {
	*lines
	ctx   context.Context
	yield func(store.Queue, error) bool
}

// listPage yields the queues with these keys.
func (l *lister) listPage(keys []string) error {
	answers, err := l.listAll(l.ctx, keys, "0", strconv.Itoa(queuesEach))
	if err != nil {
		return err
	}
	for i, key := range keys {
		name, _ := l.keys.name(key)
		if !l.yieldPage(name, key, answers[i]) {
			return errStopped
		}
	}
	return nil
}

// yieldPage yields a queue of which the first page was read.
func (l *lister) yieldPage(name, key string, answer rediswire.Reply) (goOn bool) {
	entries, count, err := l.decodePage(name, key, answer)
	switch {
	case err != nil:
		return l.yield(store.Queue{Name: name}, err)
	case count > len(entries):
		return store.YieldQueue(l.ctx, l.lines, name, l.yield)
	case count == 0:
		return true
	}
	return l.yield(store.Queue{Name: name, Entries: entries}, nil)
}

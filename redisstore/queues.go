package redisstore

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"

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
		err := s.eachPage(ctx, prefix, func(keys []string) error {
			for page := range slices.Chunk(keys, queuesBatch) {
				if err := s.yieldQueues(ctx, page, yield); err != nil {
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

// yieldQueues yields the queues with these keys. It returns errStopped if the caller stops the iteration.
func (s *lines) yieldQueues(ctx context.Context, keys []string, yield func(store.Queue, error) bool) error {
	answers, err := s.listAll(ctx, keys, "0", strconv.Itoa(queuesEach))
	if err != nil {
		return err
	}
	for i, key := range keys {
		name, _ := s.keys.name(key)
		entries, count, err := s.decodePage(name, key, answers[i])
		more := true
		switch {
		case err != nil:
			more = yield(store.Queue{Name: name}, err)
		case count > len(entries):
			more = store.YieldQueue(ctx, s, name, yield)
		case count != 0:
			more = yield(store.Queue{Name: name, Entries: entries}, nil)
		}
		if !more {
			return errStopped
		}
	}
	return nil
}

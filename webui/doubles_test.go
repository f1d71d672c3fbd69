package webui_test

import (
	"context"
	"errors"
	"hash/fnv"
	"iter"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A failingStore is a store whose reads fail while it is told so. It does not report changes.
type failingStore struct {
	store.Store
	failing atomic.Bool
}

func (s *failingStore) set(failing bool) { s.failing.Store(failing) }

func (s *failingStore) fault() error {
	if s.failing.Load() {
		return &store.Fault{Store: "test", Err: errors.New("out of order")}
	}
	return nil
}

func (s *failingStore) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	if err := s.fault(); err != nil {
		return func(yield func(string, error) bool) { yield("", err) }
	}
	return s.Store.Names(ctx, prefix)
}

func (s *failingStore) Queue(ctx context.Context, name string) (store.Queue, error) {
	if err := s.fault(); err != nil {
		return store.Queue{}, err
	}
	return s.Store.Queue(ctx, name)
}

// A picturedStore is a store for pictures: it seems to be a server, on which claims have stood for minutes.
type picturedStore struct{ store.Store }

func (s *picturedStore) Abilities() store.Abilities {
	a := s.Store.Abilities()
	a.Store = "redis at locks.internal:6379"
	return a
}

func (s *picturedStore) Queue(ctx context.Context, name string) (store.Queue, error) {
	q, err := s.Store.Queue(ctx, name)
	q.Entries = append([]store.Entry{}, q.Entries...)
	h := fnv.New32()
	_, _ = h.Write([]byte(name))
	for i := range q.Entries {
		q.Entries[i].Since = q.Entries[i].Since.Add(-time.Duration(h.Sum32()%240+20) * time.Second / time.Duration(i+1))
	}
	return q, err
}

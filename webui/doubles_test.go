package webui_test

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"

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

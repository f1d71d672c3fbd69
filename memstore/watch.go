package memstore

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

var (
	_ store.Watcher = (*Store)(nil)
	_ store.Lister  = (*Store)(nil)
)

// A watch is a call of Watch in progress.
type watch struct {
	store  *Store
	prefix string

	mu      sync.Mutex
	changed func(name string) // nil: Watch has returned
}

// tell sends a report that a queue has changed, if its name begins with the prefix. The server's mutex is locked.
func (w *watch) tell(name string) {
	if name != "" && !strings.HasPrefix(name, w.prefix) {
		return
	}
	n := w.store.route()
	if n == nil {
		w.receive(name)
		return
	}
	n.Push(func() { w.receive(name) })
}

// receive calls changed at the client, unless the watch has ended.
func (w *watch) receive(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed != nil {
		w.changed(name)
	}
}

// end ends the watch: changed is not called any more.
func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed = nil
}

// Watch implements store.Watcher.
func (st *Store) Watch(ctx context.Context, prefix string, changed func(name string)) error {
	if err := st.frame.Alive(ctx); err != nil {
		return err
	}
	w := &watch{store: st, prefix: prefix, changed: changed}
	st.server.addWatch(w)
	defer st.server.removeWatch(w)
	w.receive("")
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-st.frame.Life().Done():
		return store.ErrClosed
	}
}

// addWatch adds w to the watches of the server.
func (s *Server) addWatch(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches[w] = struct{}{}
}

// removeWatch removes w from the watches of the server, and ends it.
func (s *Server) removeWatch(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watches, w)
	w.end()
}

// changed reports to the watches of the queue's store that the queue has changed. The mutex is locked.
func (s *Server) changed(q *queue) {
	for w := range s.watches {
		if w.store.tenant == q.tenant {
			w.tell(q.name)
		}
	}
}

// changedFor reports to the watches of a store that any queue may have changed.
func (s *Server) changedFor(st *Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		if w.store == st {
			w.receive("")
		}
	}
}

// queuesPage is how many queues are read with one call, so that other calls are served in between.
const queuesPage = 256

// Queues implements store.Lister.
func (st *Store) Queues(ctx context.Context, prefix string) iter.Seq2[store.Queue, error] {
	return func(yield func(store.Queue, error) bool) {
		var names []string
		for name, err := range st.Names(ctx, prefix) {
			if err != nil {
				yield(store.Queue{}, err)
				return
			}
			names = append(names, name)
		}
		for page := range slices.Chunk(names, queuesPage) {
			results, err := st.readQueues(ctx, page)
			if err != nil {
				yield(store.Queue{}, err)
				return
			}
			for _, r := range results {
				if (r.err != nil || len(r.Entries) > 0) && !yield(r.Queue, r.err) {
					return
				}
			}
		}
	}
}

// A result is a queue that was read, or the error of reading it.
type result struct {
	store.Queue
	err error
}

// readQueues reads some queues with one call.
func (st *Store) readQueues(ctx context.Context, names []string) ([]result, error) {
	if err := st.frame.Alive(ctx); err != nil {
		return nil, err
	}
	call := st.frame.Call(ctx, frame.AskTimeout)
	defer call.End()
	return send(&call, st.route(), func() ([]result, error) {
		now := st.server.begin()
		defer st.server.end()
		results := make([]result, len(names))
		for i, name := range names {
			results[i].Queue, results[i].err = st.tenant.read(name, now)
		}
		return results, nil
	})
}

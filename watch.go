package holdfast

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// watchEvery is how often all queues are read of a store that does not report changes, at most.
	watchEvery = time.Second
	// refreshEvery is how often all queues are read of a store that reports changes, at most: a renewal is not
	// reported.
	refreshEvery = 10 * time.Second
	// watchShare bounds what watching costs: between two reads Watch pauses that many times as long as the first took.
	watchShare = 25
	// batchEvery is how often queues are read that a store reports as changed, at most.
	batchEvery = 250 * time.Millisecond
	// batchMost is how many of them are read together. If more have changed, all queues are read instead.
	batchMost = 64
)

// Watch reports the queues whose names begin with prefix, and how they change, until ctx ends. The first batch has
// every queue that is in use. Each later batch has the queues that changed since, as they are now; a queue with no
// entries is no longer in use. Changes that follow each other quickly are reported as one. A queue is also reported
// when a claim in it was renewed, with the time that it has left now.
//
// A store that can push changes has one subscription, however many queues there are. Any other store is polled: every
// second, and less often if a read takes long, so that watching never costs more than a few per cent of the store's
// time. In both cases an entry's Left is as of when the queue was read, and the caller counts it down.
//
// A failure of the store is reported once, with no queues. Watch then goes on, and the next batch has all that changed
// meanwhile. It is empty if nothing did. An *Error with a Name concerns that queue alone, which cannot be read, as one
// that was written by a newer version; all other queues are reported as usual. Break out of the loop to stop at an
// error. Watch ends by itself after ErrClosed, and after ErrUnsupported if the store cannot list its queues.
func (c *Client) Watch(ctx context.Context, prefix string) iter.Seq2[[]Queue, error] {
	return func(yield func([]Queue, error) bool) {
		k := lock{client: c, err: c.settings.err}
		if err := k.usable(ctx); err != nil {
			yield(nil, c.failed("watch", "", err))
			return
		}
		news := c.subscribe(ctx, prefix, "")
		defer news.end()
		w := watch{client: c, prefix: prefix, queues: map[string]seenQueue{}, unreadable: map[string]bool{}}
		for first, failing := true, false; ctx.Err() == nil; news.next(ctx) {
			began := time.Now()
			names, all := news.take()
			batch, err := w.read(ctx, names, all)
			news.read(time.Since(began), all, err)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !failing && !yield(nil, err) || errors.Is(err, ErrClosed) || errors.Is(err, ErrUnsupported) {
					return
				}
				failing = true
				continue
			case (first || failing || len(batch) > 0) && !yield(batch, nil):
				return
			}
			first, failing = false, false
			for _, err := range w.takeUnreadable() {
				if !yield(nil, err) {
					return
				}
			}
		}
	}
}

// A watch is what Watch has reported so far.
type watch struct {
	client     *Client
	prefix     string
	queues     map[string]seenQueue
	unreadable map[string]bool // names whose error was reported
	errs       []error         // of queues that cannot be read, not yet reported
}

// A seenQueue is a queue as it was read at a moment.
type seenQueue struct {
	Queue
	at time.Time
}

// read reads queues, and returns those that differ from what was read before.
func (w *watch) read(ctx context.Context, names map[string]struct{}, all bool) ([]Queue, error) {
	if w.client.isClosed() { // the store may still respond, and nothing pauses any more
		return nil, w.client.failed("watch", "", ErrClosed)
	}
	if all {
		return w.readAll(ctx)
	}
	return w.readSome(ctx, names)
}

// readAll reads all queues.
func (w *watch) readAll(ctx context.Context) (batch []Queue, err error) {
	there := make(map[string]bool, len(w.queues))
	for q, err := range store.Queues(ctx, w.client.store, w.prefix) {
		if err != nil && q.Name == "" {
			return batch, w.client.failed("watch", "", err)
		}
		there[q.Name] = true
		batch = w.take(batch, q, err)
	}
	for name := range w.queues {
		if !there[name] {
			batch = w.take(batch, store.Queue{Name: name}, nil)
		}
	}
	for name := range w.unreadable {
		if !there[name] {
			delete(w.unreadable, name)
		}
	}
	return batch, nil
}

// readSome reads some queues, one by one.
func (w *watch) readSome(ctx context.Context, names map[string]struct{}) (batch []Queue, err error) {
	for name := range names {
		q, err := w.client.store.Queue(ctx, name)
		if err != nil && (!store.Final(err) || errors.Is(err, ErrClosed)) {
			return batch, w.client.failed("watch", "", err)
		}
		q.Name = name
		batch = w.take(batch, q, err)
	}
	return batch, nil
}

// take takes a queue that was read, and appends it to batch if it differs from what was reported. One that cannot be
// read stays as it was reported last.
func (w *watch) take(batch []Queue, q store.Queue, err error) []Queue {
	if err != nil {
		if !w.unreadable[q.Name] {
			w.unreadable[q.Name] = true
			w.errs = append(w.errs, w.client.failed("watch", q.Name, err))
		}
		return batch
	}
	delete(w.unreadable, q.Name)
	now := seenQueue{newQueue(q.Name, q.Entries), time.Now()}
	before, known := w.queues[q.Name]
	if len(now.Entries) == 0 {
		delete(w.queues, q.Name)
		if known {
			batch = append(batch, now.Queue)
		}
		return batch
	}
	if known && !before.changed(now) {
		return batch
	}
	w.queues[q.Name] = now
	return append(batch, now.Queue)
}

// takeUnreadable returns the errors of queues that cannot be read, each once.
func (w *watch) takeUnreadable() []error {
	errs := w.errs
	w.errs = nil
	return errs
}

// Instants that a store reports differ from read to read by as much as a response takes, or by its clock's unit.
const (
	sameSince = time.Second
	sameLeft  = 250 * time.Millisecond
)

// changed reports whether a queue differs from a later read of it: by its entries, or because one was renewed.
func (q seenQueue) changed(now seenQueue) bool {
	if len(q.Entries) != len(now.Entries) {
		return true
	}
	for i := range q.Entries {
		a, b := q.Entries[i], now.Entries[i]
		if a.Since.IsZero() != b.Since.IsZero() || a.Since.Sub(b.Since).Abs() > sameSince {
			return true
		}
		if now.at.Add(b.Left).Sub(q.at.Add(a.Left)) > sameLeft {
			return true
		}
		a.Since, a.Left = b.Since, b.Left
		if a.Owner.Started.Equal(b.Owner.Started) {
			a.Owner.Started = b.Owner.Started
		}
		if a != b {
			return true
		}
	}
	return false
}

// A subscription says when which queues are to be read: those that the store reports as changed, and all of them from
// time to time. Its methods are called by one goroutine, except for changed.
type subscription struct {
	client *Client
	only   string // if it is not empty, the only queue that matters
	cancel context.CancelFunc
	done   sync.WaitGroup

	readNext time.Time // nothing is read before
	readAll  time.Time // all queues are read then

	mu     sync.Mutex
	pushes bool                // the store reports changes
	all    bool                // any queue may have changed
	names  map[string]struct{} // those that have
	news   chan struct{}       // has a token when there is something in all or names
}

// subscribe has the store report which queues with this prefix change, if it can. The caller calls end.
func (c *Client) subscribe(ctx context.Context, prefix, only string) *subscription {
	s := &subscription{client: c, only: only, all: true, news: make(chan struct{}, 1)}
	ctx, s.cancel = context.WithCancel(ctx)
	if w, ok := c.store.(store.Watcher); ok {
		s.done.Go(func() {
			defer context.AfterFunc(c.closed, s.cancel)()
			_ = w.Watch(ctx, prefix, s.changed) // whatever ended it, the next read says what is wrong
			s.set(func() { s.pushes, s.all = false, true })
		})
	}
	return s
}

// end ends the subscription.
func (s *subscription) end() {
	s.cancel()
	s.done.Wait()
}

// changed notes that a queue has changed, or with "" that any may have.
func (s *subscription) changed(name string) {
	switch {
	case name == "":
		s.set(func() { s.pushes, s.all, s.names = true, true, nil })
	case s.only == "" || s.only == name:
		s.set(func() {
			if s.names == nil {
				s.names = map[string]struct{}{}
			}
			if !s.all && len(s.names) <= batchMost { // with one more, all are read
				s.names[name] = struct{}{}
			}
		})
	}
}

// set changes what is to be read, and wakes the reader.
func (s *subscription) set(change func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// take returns the names of the queues to be read, or that all are.
func (s *subscription) take() (names map[string]struct{}, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names, all = s.names, s.all || len(s.names) > batchMost || !time.Now().Before(s.readAll)
	s.names, s.all = nil, false
	select {
	case <-s.news:
	default:
	}
	return names, all
}

// read notes that a read has taken so long, of all queues or of some. After one that failed, all are read.
func (s *subscription) read(took time.Duration, all bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	share := watchShare * took
	s.readNext = now.Add(max(batchEvery, share))
	every := watchEvery
	if s.pushes && err == nil {
		every = refreshEvery
	}
	if err != nil {
		s.all, s.readNext = true, now.Add(max(watchEvery, share))
	}
	if all || err != nil {
		s.readAll = now.Add(max(every, share))
	}
}

// next waits until something is to be read.
func (s *subscription) next(ctx context.Context) {
	s.client.pause(ctx, time.Until(s.readNext))
	s.mu.Lock()
	waits := !s.all && len(s.names) == 0
	s.mu.Unlock()
	if waits {
		s.await(ctx, time.Until(s.readAll))
	}
}

// await waits for news, but not longer than d.
func (s *subscription) await(ctx context.Context, d time.Duration) {
	select {
	case <-s.news:
	case <-time.After(d):
	case <-ctx.Done():
	case <-s.client.closed.Done():
	}
}

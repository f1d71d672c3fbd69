package storetest_test

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/memharness"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// A broken harness makes stores with a bug. What is nil is honest.
type broken struct {
	storetest.Harness
	bug     func(*bug)                 // put into every store
	prefix  func(prefix string) string // instead of the requested prefix
	restart func(keepData bool) error
	residue func(name string) (int, error)
	plant   func(name string) error
}

// newBroken makes a harness with a mistake.
func newBroken(t testing.TB, mistake func(*broken)) *broken {
	h := &broken{Harness: memharness.New(t)}
	mistake(h)
	return h
}

// eachStore makes the same mistake in every store.
func eachStore(mistake func(*bug)) func(*broken) {
	return func(h *broken) { h.bug = mistake }
}

func (h *broken) Open(t testing.TB, prefix string) (store.Store, storetest.Link) {
	asked := prefix
	if h.prefix != nil {
		prefix = h.prefix(prefix)
	}
	s, link := h.Harness.Open(t, prefix)
	eye, _ := h.Harness.Open(t, prefix)
	b := &bug{Store: s, eye: eye, prefix: asked}
	if h.bug != nil {
		h.bug(b)
	}
	return b, link
}

func (h *broken) Restart(keepData bool) error {
	if h.restart != nil {
		return h.restart(keepData)
	}
	return h.Harness.Restart(keepData)
}

func (h *broken) Residue(name string) (int, error) {
	if h.residue != nil {
		return h.residue(name)
	}
	return h.Harness.Residue(name)
}

func (h *broken) PlantNewer(name string) error {
	if h.plant != nil {
		return h.plant(name)
	}
	return h.Harness.PlantNewer(name)
}

// A bug is a store with a mistake. What is nil is honest.
type bug struct {
	store.Store
	eye    store.Store // for what a broken server would do: it has a link of its own
	prefix string      // that its client requested

	sends   func(c *store.Claim)                                         // alters what Join, Keep and Leave send
	leaves  func(c *store.Claim)                                         // alters what Leave sends
	answers func(c store.Claim, s *store.Status)                         // alters what Join and Keep return
	pushes  func(id store.ID, s *store.Status)                           // alters what is pushed
	shows   func(l *store.Queue)                                         // alters what Queue returns
	fails   func(err error) error                                        // alters every error
	context func(ctx context.Context, ttl time.Duration) context.Context // alters every context

	join      func(ctx context.Context, c store.Claim) (store.Status, error)
	keep      func(ctx context.Context, cs []store.Claim) ([]store.Status, error)
	leave     func(ctx context.Context, c store.Claim) error
	breaks    func(ctx context.Context, name string, ticket uint64) error
	line      func(ctx context.Context, name string) (store.Queue, error)
	names     func(ctx context.Context, prefix string) iter.Seq2[string, error]
	watch     func(ctx context.Context, prefix string, changed func(string)) error
	queues    func(ctx context.Context, prefix string) iter.Seq2[store.Queue, error]
	detach    func(ctx context.Context, c store.Claim, as store.ID, d time.Duration) (store.Status, error)
	attach    func(ctx context.Context, c store.Claim, from store.ID) (store.Status, error)
	notify    func(fn func(store.ID, store.Status))
	abilities func(*store.Abilities)
}

func (b *bug) Join(ctx context.Context, c store.Claim) (store.Status, error) {
	asked := c
	b.send(&c)
	join := b.Store.Join
	if b.join != nil {
		join = b.join
	}
	status, err := join(b.in(ctx, c.TTL), c)
	if err == nil && b.answers != nil {
		b.answers(asked, &status)
	}
	return status, b.fail(err)
}

func (b *bug) Keep(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
	sent := slices.Clone(cs)
	ttl := time.Hour
	for i := range sent {
		b.send(&sent[i])
		ttl = min(ttl, sent[i].TTL)
	}
	keep := b.Store.Keep
	if b.keep != nil {
		keep, sent = b.keep, cs // as the caller passed them: the bug may be to retain them
	}
	statuses, err := keep(b.in(ctx, ttl), sent)
	for i := range statuses {
		if b.answers != nil {
			b.answers(cs[i], &statuses[i])
		}
	}
	return statuses, b.fail(err)
}

func (b *bug) Leave(ctx context.Context, c store.Claim) error {
	b.send(&c)
	if b.leaves != nil {
		b.leaves(&c)
	}
	leave := b.Store.Leave
	if b.leave != nil {
		leave = b.leave
	}
	return b.fail(leave(b.in(ctx, c.TTL), c))
}

func (b *bug) Break(ctx context.Context, name string, ticket uint64) error {
	if b.breaks != nil {
		return b.breaks(ctx, name, ticket)
	}
	return b.fail(b.Store.Break(b.in(ctx, time.Hour), name, ticket))
}

func (b *bug) Queue(ctx context.Context, name string) (store.Queue, error) {
	if b.line != nil {
		return b.line(ctx, name)
	}
	line, err := b.Store.Queue(b.in(ctx, time.Hour), name)
	if b.shows != nil {
		b.shows(&line)
	}
	return line, b.fail(err)
}

func (b *bug) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	if b.names != nil {
		return b.names(ctx, prefix)
	}
	return func(yield func(string, error) bool) {
		for name, err := range b.Store.Names(b.in(ctx, time.Hour), prefix) {
			if !yield(name, b.fail(err)) {
				return
			}
		}
	}
}

func (b *bug) Notify(fn func(store.ID, store.Status)) {
	if b.notify != nil {
		b.notify(fn)
		return
	}
	b.Store.Notify(func(id store.ID, s store.Status) {
		if b.pushes != nil {
			b.pushes(id, &s)
		}
		fn(id, s)
	})
}

func (b *bug) Abilities() store.Abilities {
	able := b.Store.Abilities()
	if b.abilities != nil {
		b.abilities(&able)
	}
	return able
}

func (b *bug) send(c *store.Claim) {
	if b.sends != nil {
		b.sends(c)
	}
}

func (b *bug) fail(err error) error {
	if err == nil || b.fails == nil {
		return err
	}
	return b.fails(err)
}

func (b *bug) in(ctx context.Context, ttl time.Duration) context.Context {
	if b.context == nil {
		return ctx
	}
	return b.context(ctx, ttl)
}

// entries returns the true entries of a queue.
func (b *bug) entries(name string) []store.Entry {
	line, err := b.eye.Queue(context.Background(), name)
	if err != nil {
		return nil
	}
	return line.Entries
}

// find returns the true entry of a claim, or nil.
func (b *bug) find(c store.Claim) *store.Entry {
	for _, p := range b.entries(c.Name) {
		if p.ID == c.ID {
			return &p
		}
	}
	return nil
}

// notes are what a broken store remembers.
type notes[K comparable, V any] struct {
	mu sync.Mutex
	m  map[K]V
}

func (n *notes[K, V]) get(key K) V {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.m[key]
}

func (n *notes[K, V]) set(key K, value V) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.m == nil {
		n.m = map[K]V{}
	}
	n.m[key] = value
}

func (n *notes[K, V]) keys() []K {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Keys(n.m))
}

package webui

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// A countingStore counts the reads of a store. It does not report changes, so that watching it means to read it.
type countingStore struct {
	store.Store
	reads atomic.Int64
}

func (s *countingStore) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	s.reads.Add(1)
	return s.Store.Names(ctx, prefix)
}

func (s *countingStore) Queue(ctx context.Context, name string) (store.Queue, error) {
	s.reads.Add(1)
	return s.Store.Queue(ctx, name)
}

func newTestHandler(t *testing.T) (*Handler, *countingStore) {
	t.Helper()
	s := &countingStore{Store: memstore.New()}
	client := holdfast.New(s)
	h, err := New(client)
	testkit.Must(t, err)
	t.Cleanup(func() { h.Close(); client.Close() })
	return h, s
}

// TestWatchesForViewersOnly: without viewers the store is not read, with viewers it is, and after the last one it is
// not.
func TestWatchesForViewersOnly(t *testing.T) {
	h, s := newTestHandler(t)
	h.hub.lingerFor = time.Millisecond
	watches := func() bool { h.hub.mu.Lock(); defer h.hub.mu.Unlock(); return h.hub.stop != nil }
	if s.reads.Load() != 0 || watches() {
		t.Fatal("the store is read before the first viewer")
	}
	var viewers []*viewer
	for range 3 {
		v, err := h.hub.join()
		testkit.Must(t, err)
		viewers = append(viewers, v)
	}
	testkit.Await(t, "the store is read", func() bool { return s.reads.Load() > 0 })
	for i, v := range viewers {
		if !watches() {
			t.Errorf("the watch ended with viewer %d", i)
		}
		h.hub.leave(v)
	}
	testkit.Await(t, "the watch ends", func() bool { return !watches() })
	h.hub.wait.Wait()
	before := s.reads.Load()
	h.hub.refresh(t.Context(), []string{"x"})
	if after := s.reads.Load(); after != before {
		t.Errorf("%d reads without a viewer", after-before)
	}
}

// TestReloadKeepsTimeline: a viewer that comes back soon finds what was seen before.
func TestReloadKeepsTimeline(t *testing.T) {
	h, _ := newTestHandler(t)
	v, err := h.hub.join()
	testkit.Must(t, err)
	b := h.hub.board
	h.hub.leave(v)
	v, err = h.hub.join()
	testkit.Must(t, err)
	defer h.hub.leave(v)
	if h.hub.board != b || h.hub.linger != nil {
		t.Error("the board is a new one")
	}
}

// TestSlowViewerIsDropped: a viewer that does not read is dropped, and the others are not.
func TestSlowViewerIsDropped(t *testing.T) {
	h, _ := newTestHandler(t)
	slow, err := h.hub.join()
	testkit.Must(t, err)
	quick, err := h.hub.join()
	testkit.Must(t, err)
	for range 2 * maxBehind {
		h.hub.mu.Lock()
		h.hub.broadcast([]byte("x"))
		h.hub.mu.Unlock()
		for len(quick.messages) > 0 {
			<-quick.messages
		}
	}
	h.hub.mu.Lock()
	if h.hub.viewers[slow] || !h.hub.viewers[quick] {
		t.Error("the wrong viewer was dropped")
	}
	h.hub.mu.Unlock()
	n := 0
	for range slow.messages {
		n++
	}
	if n != maxBehind {
		t.Errorf("%d messages, want %d and then the end", n, maxBehind)
	}
	h.hub.leave(slow)
	h.hub.leave(quick)
}

// TestRefreshIsShared: many viewers that look at one name cost one read.
func TestRefreshIsShared(t *testing.T) {
	h, s := newTestHandler(t)
	testkit.Held(t, s.Store, testkit.Claim("x", time.Minute))
	v, err := h.hub.join()
	testkit.Must(t, err)
	defer h.hub.leave(v)
	testkit.Await(t, "the first batch",
		func() bool { h.hub.mu.Lock(); defer h.hub.mu.Unlock(); return h.hub.board.queues["x"] != nil })
	h.hub.refresh(t.Context(), []string{"x"})
	first := h.hub.fresh["x"]
	for range 50 {
		h.hub.refresh(t.Context(), []string{"x"})
	}
	if time.Since(first.at) < freshFor && h.hub.fresh["x"] != first {
		t.Error("it was read again")
	}
}

// TestFlusher: changes are sent, a quiet store is sent a sign of life only, and a failure is sent once.
func TestFlusher(t *testing.T) {
	p := newPlayer()
	var f flusher
	if f.message(p.board, p.now) == nil {
		t.Error("the first message is missing")
	}
	p.at(time.Second, "x", held(1, "a"))
	if f.message(p.board, p.now) == nil || f.message(p.board, p.now) != nil {
		t.Error("a change is not sent exactly once")
	}
	if f.message(p.board, p.now.Add(pingEvery/2)) != nil || f.message(p.board, p.now.Add(pingEvery)) == nil {
		t.Error("there is no sign of life")
	}
	p.fail(context.DeadlineExceeded, p.now)
	if f.message(p.board, p.now) == nil || f.message(p.board, p.now) != nil {
		t.Error("a failure is not sent exactly once")
	}
}

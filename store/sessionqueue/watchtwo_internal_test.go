package sessionqueue

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A shrinkingLine is a server with one line, out of which claims leave. The last is "own". It counts how often the line
// is read.
type shrinkingLine struct {
	Server[int]

	mu    sync.Mutex
	keys  []string
	reads int
}

func (*shrinkingLine) Open(context.Context) (session int, ttl time.Duration, sent time.Time, err error) {
	return 1, time.Minute, time.Now(), nil
}

func (*shrinkingLine) End(context.Context, int) {}

func (l *shrinkingLine) Queue(context.Context, int, string) (entries []Entry, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	for _, key := range l.keys {
		all := store.Demand{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders}
		entries = append(entries, Entry{Key: key, Demand: all})
	}
	return entries, nil
}

func (l *shrinkingLine) Watch(_ context.Context, _ int, w Watch) (there bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.keys, w.Key), nil
}

func (*shrinkingLine) Unwatch(int, Watch) {}

// leave has claims leave at the same moment, which the store hears of one by one.
func (l *shrinkingLine) leave(s *Store[int], keys ...string) {
	l.mu.Lock()
	l.keys = slices.DeleteFunc(l.keys, func(key string) bool { return slices.Contains(keys, key) })
	l.mu.Unlock()
	for _, key := range keys {
		s.Changed(1, Watch{Key: key}, true)
	}
}

func (l *shrinkingLine) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reads
}

// Claims ahead of one that wants everything leave in some order. It holds when all have left and not before, and reads
// the queue only where it can't know who is left. When the last leaves alone, it knows, and holds at once.
func TestWatchTwo(t *testing.T) {
	t.Parallel()
	type step []string
	const uncertain = -1 // it depends on how far a look has come
	for _, test := range []struct {
		name  string
		ahead []string
		leave []step
		reads int // after the first, or uncertain
		other func(*Config[int])
	}{
		{name: "one", ahead: []string{"a"}, leave: []step{{"a"}}},
		{name: "two", ahead: []string{"a", "b"}, leave: []step{{"a"}, {"b"}}},
		{name: "two, the waiting one first", ahead: []string{"a", "b"}, leave: []step{{"b"}, {"a"}}},
		{name: "two at once", ahead: []string{"a", "b"}, leave: []step{{"a", "b"}}},
		{name: "three", ahead: []string{"a", "b", "c"}, leave: []step{{"a"}, {"b"}, {"c"}}, reads: 1},
		{name: "three, the last first", ahead: []string{"a", "b", "c"}, leave: []step{{"c"}, {"a"}, {"b"}}, reads: 1},
		{name: "three, the middle one first", ahead: []string{"a", "b", "c"}, leave: []step{{"b"}, {"a"}, {"c"}},
			reads: 1},
		{name: "three, two at once", ahead: []string{"a", "b", "c"}, leave: []step{{"a"}, {"b", "c"}},
			reads: uncertain},
		{name: "five", ahead: []string{"a", "b", "c", "d", "e"}, leave: []step{{"a"}, {"b"}, {"c"}, {"d"}, {"e"}},
			reads: 1},
		{
			name: "two, of which one is watched", ahead: []string{"a", "b"}, leave: []step{{"a"}, {"b"}}, reads: 1,
			other: func(c *Config[int]) { c.WatchTwo = false },
		},
		{
			name: "two, of which the watched one leaves first", ahead: []string{"a", "b"}, leave: []step{{"b"}, {"a"}},
			reads: 1,
			other: func(c *Config[int]) { c.WatchTwo = false },
		},
		{
			name: "where a claim's own node is not watched", ahead: []string{"a", "b"}, leave: []step{{"a"}, {"b"}},
			reads: 2,
			other: func(c *Config[int]) { c.WatchOwn = false },
		},
		{
			name: "where nodes may come ahead", ahead: []string{"a", "b"}, leave: []step{{"a"}, {"b"}}, reads: 2,
			other: func(c *Config[int]) { c.Foreign = true },
		},
		{
			name: "where a claim's own node is not watched", ahead: []string{"a"}, leave: []step{{"a"}}, reads: 1,
			other: func(c *Config[int]) { c.WatchOwn = false },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := &shrinkingLine{keys: append(slices.Clone(test.ahead), "own")}
			config := Config[int]{Server: server, WatchTwo: true, WatchOwn: true}
			if test.other != nil {
				test.other(&config)
			}
			s, c, pushes := waitingIn(t, config)
			if err := s.inspect(t.Context(), c.Name, []*claim[int]{c}); err != nil {
				t.Fatal(err)
			}
			for _, keys := range test.leave {
				if state := stateOf(s, c); state != store.Waiting {
					t.Fatalf("it is %v while others are ahead", state)
				}
				server.leave(s, keys...)
				settleLooks(t, s)
			}
			if state := stateOf(s, c); state != store.Held {
				t.Fatalf("it is %v when all have left", state)
			}
			if status := <-pushes; status.State != store.Held || status.Ticket != c.Ticket {
				t.Errorf("it is told that it is %v with ticket %d", status.State, status.Ticket)
			}
			if reads := server.count() - 1; reads != test.reads && test.reads != uncertain {
				t.Errorf("the line was read %d times after the first, want %d", reads, test.reads)
			}
		})
	}
}

// While a client has no connection, the node of its waiting claim is deleted, and then the one ahead of it. When it is
// connected again it hears of that in the other order. It is not granted.
func TestEventsAfterReconnect(t *testing.T) {
	t.Parallel()
	server := &shrinkingLine{keys: []string{"a", "own"}}
	s, c, _ := waitingIn(t, Config[int]{Server: server, WatchTwo: true, WatchOwn: true})
	if err := s.inspect(t.Context(), c.Name, []*claim[int]{c}); err != nil {
		t.Fatal(err)
	}
	server.mu.Lock() // it does not respond yet
	server.keys = nil
	s.Reconnected()
	s.Changed(1, Watch{Key: "a"}, true)
	early := stateOf(s, c)
	server.mu.Unlock()
	settleLooks(t, s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if early != store.Waiting || c.state != store.Waiting || s.claims[c.ID] != nil {
		t.Errorf("it is %v before its line is read and %v after, and it is there: %v", early, c.state,
			s.claims[c.ID] != nil)
	}
}

func stateOf(s *Store[int], c *claim[int]) store.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.state
}

// settleLooks waits until no claim is in doubt and none is inspected.
func settleLooks(t *testing.T, s *Store[int]) {
	t.Helper()
	if err := s.doubts.Await(t.Context()); err != nil {
		t.Error(err)
	}
}

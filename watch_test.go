package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// A report is one turn of a Watch.
type report struct {
	batch []holdfast.Queue
	err   error
}

// names returns the names in a report, sorted, with a minus before those of queues that are no longer in use.
func (r report) names() string {
	var names []string
	for _, q := range r.batch {
		if len(q.Entries) == 0 {
			q.Name = "-" + q.Name
		}
		names = append(names, q.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// watchInBubble collects what a Watch reports. The channel is closed when it has ended.
func watchInBubble(ctx context.Context, c *holdfast.Client, prefix string) <-chan report {
	reports := make(chan report, 1000)
	go func() {
		defer close(reports)
		for batch, err := range c.Watch(ctx, prefix) {
			reports <- report{batch, err}
		}
	}()
	return reports
}

// expect waits for a while, and demands what was reported meanwhile, joined by commas.
func expect(t *testing.T, reports <-chan report, wait time.Duration, want string) {
	t.Helper()
	time.Sleep(wait)
	synctest.Wait()
	var got []string
	for len(reports) > 0 {
		r := <-reports
		if r.err != nil {
			got = append(got, "error")
			continue
		}
		got = append(got, r.names())
	}
	if strings.Join(got, ", ") != want {
		t.Errorf("Watch reported %q, want %q", strings.Join(got, ", "), want)
	}
}

// A countingStore counts reads, and can fail or lack what memstore has.
type countingStore struct {
	store.Store
	lists, reads atomic.Int64
	takes        time.Duration // how long a read of all queues takes
	fails        atomic.Bool
}

func (s *countingStore) Queue(ctx context.Context, name string) (store.Queue, error) {
	s.reads.Add(1)
	if s.fails.Load() {
		return store.Queue{}, &store.Fault{Store: "test", Err: errors.New("out of order")}
	}
	return s.Store.Queue(ctx, name)
}

func (s *countingStore) Queues(ctx context.Context, prefix string) iter.Seq2[store.Queue, error] {
	s.lists.Add(1)
	time.Sleep(s.takes)
	if s.fails.Load() {
		return func(yield func(store.Queue, error) bool) {
			yield(store.Queue{}, &store.Fault{Store: "test", Err: errors.New("out of order")})
		}
	}
	return s.Store.(store.Lister).Queues(ctx, prefix) //nolint:forcetypeassert // memstore is one
}

// A pushingStore also reports changes.
type pushingStore struct{ *countingStore }

func (s pushingStore) Watch(ctx context.Context, prefix string, changed func(string)) error {
	return s.Store.(store.Watcher).Watch(ctx, prefix, changed) //nolint:forcetypeassert // memstore is one
}

// TestWatch: a store is watched that reports changes, and one that does not. Every change is reported, with the prefix
// that was asked for and no other, and a failure once.
func TestWatch(t *testing.T) {
	for _, pushes := range []bool{true, false} {
		t.Run(fmt.Sprintf("pushes=%v", pushes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := memstore.NewServer()
				counting := &countingStore{Store: server.Connect()}
				var watched store.Store = counting
				if pushes {
					watched = pushingStore{counting}
				}
				viewer, user := holdfast.New(watched), holdfast.New(server.Connect(), holdfast.WithTTL(time.Hour))
				defer viewer.Close()
				defer user.Close()
				a, err := user.Mutex("job/a").Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				reports := watchInBubble(ctx, viewer, "job/")
				expect(t, reports, time.Minute, "job/a")

				b, err := user.Mutex("job/b").Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := user.Mutex("else").Lock(t.Context()); err != nil {
					t.Fatal(err)
				}
				expect(t, reports, 2*time.Second, "job/b")
				for _, l := range []*holdfast.Lease{a, b} { // one at a time: Watch may read between two of them
					if err := l.Unlock(t.Context()); err != nil {
						t.Fatal(err)
					}
					expect(t, reports, 2*time.Second, "-"+l.Name())
				}

				counting.fails.Store(true)
				expect(t, reports, time.Minute, "error")
				if _, err := user.Mutex("job/c").Lock(t.Context()); err != nil {
					t.Fatal(err)
				}
				expect(t, reports, time.Minute, "")
				counting.fails.Store(false)
				expect(t, reports, 20*time.Second, "job/c")
				cancel()
				expect(t, reports, time.Second, "")
				if _, open := <-reports; open {
					t.Error("Watch has not ended with its context")
				}
			})
		})
	}
}

// TestWatchReportsRenewals: the time left of a claim that is renewed is reported again.
func TestWatchReportsRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := holdfast.New(memstore.New(), holdfast.WithTTL(time.Minute))
		defer c.Close()
		if _, err := c.Mutex("a").Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		for batch, err := range c.Watch(ctx, "") {
			if err != nil || len(batch) != 1 {
				t.Fatalf("Watch reported %v, %v", batch, err)
			}
			if left := batch[0].Entries[0].Left; left < 20*time.Second {
				t.Errorf("%v are left", left)
			}
		}
	})
}

// TestWatchBoundsItsCost: a store is read once a second at most, and less than a twentieth of the time. One that
// reports changes is not read while nothing changes, but for every ten seconds, and otherwise at most four times a
// second.
func TestWatchBoundsItsCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			pushes      bool
			takes       time.Duration
			changes     int // a second
			lists, most int64
		}{
			{false, 0, 0, 58, 61},
			{false, time.Second, 100, 2, 3},
			{true, 0, 0, 5, 8},
			{true, 0, 3, 5, 60}, // 3 a second are read one by one
			{true, 0, 1000, 200, 245},
			{true, 100 * time.Millisecond, 1000, 20, 25},
		} {
			server := memstore.NewServer()
			counting := &countingStore{Store: server.Connect(), takes: test.takes}
			var watched store.Store = counting
			if test.pushes {
				watched = pushingStore{counting}
			}
			viewer, user := holdfast.New(watched), holdfast.New(server.Connect())
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			reports := watchInBubble(ctx, viewer, "")
			for i := 0; ctx.Err() == nil; i++ {
				if test.changes == 0 {
					<-ctx.Done()
					break
				}
				l, err := user.Mutex(fmt.Sprint(i % 500)).Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if err := l.Unlock(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second / time.Duration(test.changes))
			}
			for range reports {
			}
			cancel()
			lists, reads := counting.lists.Load(), counting.reads.Load()
			if lists < test.lists || lists > test.most || reads > 60*4*64 {
				t.Errorf("%+v: all were read %d times, and single queues %d times", test, lists, reads)
			}
			viewer.Close()
			user.Close()
		}
	})
}

// TestWatchUnreadable: a queue that a newer version has written is reported as an error of its own, once, and the
// others as usual.
func TestWatchUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memstore.NewServer()
		c := holdfast.New(server.Connect(), holdfast.WithTTL(time.Hour))
		defer c.Close()
		for _, name := range []string{"good", "newer"} {
			if _, err := c.Mutex(name).Lock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		server.PlantNewer("newer")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var good, newer int
		for batch, err := range c.Watch(ctx, "") {
			if e, ok := errors.AsType[*holdfast.Error](err); ok && e.Name == "newer" &&
				errors.Is(err, holdfast.ErrFormat) {
				newer++
			} else if err == nil && (report{batch: batch}).names() == "good" {
				good++
			} else {
				t.Errorf("Watch reported %v, %v", batch, err)
			}
		}
		if good != 1 || newer != 1 {
			t.Errorf("the good queue was reported %d times, the other %d times", good, newer)
		}
	})
}

// TestWatchEnds: Watch ends when the client is closed, with that error, and does not begin when it is.
func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := holdfast.New(memstore.New())
		reports := watchInBubble(t.Context(), c, "")
		expect(t, reports, time.Second, "")
		c.Close()
		for range 2 {
			synctest.Wait()
			r, ok := <-reports
			if !ok || !errors.Is(r.err, holdfast.ErrClosed) {
				t.Errorf("Watch of a closed client reported %+v, %v", r, ok)
			}
			if _, open := <-reports; open {
				t.Error("Watch has not ended")
			}
			reports = watchInBubble(t.Context(), c, "")
		}
		<-reports
	})
}

package etcdstore_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// part is a claim on part of what there is.
func part(name string, kind store.Kind, units, limit int32) store.Claim {
	c := claim(name)
	c.Demand = store.Demand{Kind: kind, Units: units, Limit: limit}
	return c
}

// listen notes who is told that he holds.
func listen(s *etcdstore.Store) (held func() int) {
	var mu sync.Mutex
	told := map[store.ID]bool{}
	s.Notify(func(id store.ID, status store.Status) {
		mu.Lock()
		defer mu.Unlock()
		if status.State == store.Held {
			told[id] = true
		}
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(told)
	}
}

// Many who wait in one line read it together, and not each for himself: what they read would grow with the square of
// their number.
func TestLineIsReadTogether(t *testing.T) {
	t.Parallel()
	_, f, s := newFerry(t, etcdstore.DefaultTTL)
	held := listen(s)
	holder := part("a", store.Semaphore, 2, 2)
	testkit.Join(t, s, &holder, store.Held)
	waiting := make([]store.Claim, 150)
	for i := range waiting {
		waiting[i] = part("a", store.Semaphore, 1, 2)
		testkit.Join(t, s, &waiting[i], store.Waiting)
	}
	reads := 0
	f.decide(func(r *etcdserverpb.TxnRequest) fate {
		for _, op := range r.Success {
			if read := op.GetRequestRange(); read != nil && len(read.RangeEnd) > 0 {
				reads++
			}
		}
		return delivered
	})
	counted := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return reads
	}
	before, since := counted(), time.Now()
	testkit.Await(t, "nobody looks any more because his watch has just begun", func() bool {
		if now := counted(); now != before {
			before, since = now, time.Now()
		}
		return time.Since(since) > 200*time.Millisecond
	})
	statuses, err := s.Keep(t.Context(), waiting)
	if err != nil ||
		slices.ContainsFunc(statuses, func(s store.Status) bool { return s.State != store.Waiting || s.Err != nil }) {
		t.Fatalf("Keep: %v, %v", statuses, err)
	}
	if n := counted() - before; n == 0 || n > 20 {
		t.Errorf("the line was read %d times for %d claims that wait in it", n, len(waiting))
	}
	testkit.Leave(t, s, holder)
	testkit.Await(t, "two are told", func() bool { return held() == 2 })
	for i, want := range []store.State{store.Held, store.Held, store.Waiting} {
		testkit.Keep(t, s, waiting[i], want)
	}
}

// Readers behind a writer are all told when it leaves, or becomes a reader itself, also if there are many.
func TestReadersBehindWriter(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t)
	for name, end := range map[string]func(t *testing.T, s *etcdstore.Store, writer store.Claim){
		"leaves": func(t *testing.T, s *etcdstore.Store, writer store.Claim) { testkit.Leave(t, s, writer) },
		"downgrades": func(t *testing.T, s *etcdstore.Store, writer store.Claim) {
			writer.Units = 1
			testkit.Keep(t, s, writer, store.Held)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, other := openAt(t, "etcd://"+server.Addr()), openAt(t, "etcd://"+server.Addr())
			held := listen(s)
			writer, last := claim(name), claim(name)
			testkit.Join(t, other, &writer, store.Held)
			for range 130 {
				c := part(name, store.Lock, 1, store.MaxReaders)
				testkit.Join(t, s, &c, store.Waiting)
			}
			testkit.Join(t, other, &last, store.Waiting)
			end(t, other, writer)
			testkit.Await(t, "all readers are told", func() bool { return held() == 130 })
			testkit.Keep(t, other, last, store.Waiting)
		})
	}
}

// A queue in a newer format concerns those behind what cannot be read, and nobody else.
func TestNewerFormatBehind(t *testing.T) {
	server, s := newServer(t, "")
	holder, before, behind := part("a", store.Semaphore, 2, 2), part(
		"a",
		store.Semaphore,
		1,
		2,
	), part("a", store.Semaphore, 1, 2)
	testkit.Join(t, s, &holder, store.Held)
	testkit.Join(t, s, &before, store.Waiting)
	testkit.Join(t, s, &behind, store.Waiting)
	client := server.Client(t)
	_, err := client.Put(t.Context(), etcdstore.LineKey("a")+"0000000000000001-0", "2 {}")
	testkit.Must(t, err)
	testkit.Keep(t, s, before, store.Waiting)
	testkit.Keep(t, s, behind, store.Waiting)
	// Now one that stands between the two.
	_, err = client.Put(t.Context(), etcdstore.KeyOf(s, before), "2 {}")
	testkit.Must(t, err)
	statuses, err := s.Keep(t.Context(), []store.Claim{behind, holder, before})
	if err != nil || statuses[0].Err == nil || statuses[1].State != store.Held || statuses[2].State != store.Waiting ||
		statuses[2].Err != nil {
		t.Errorf("Keep: %+v, %v", statuses, err)
	}
}

// Much to say about many claims is more than etcd takes at once. It is no reason to lose them.
func TestMuchToSay(t *testing.T) {
	t.Parallel()
	_, s := newServer(t, "")
	claims := make([]store.Claim, 40)
	for i := range claims {
		claims[i] = claim(strings.Repeat("n", 100) + string(rune('A'+i)))
		testkit.Join(t, s, &claims[i], store.Held)
		for range 80 {
			claims[i].Waits = append(claims[i].Waits,
				store.Wait{Name: strings.Repeat("w", store.MaxName), ID: claims[i].ID})
		}
	}
	statuses, err := s.Keep(t.Context(), claims)
	if err != nil || slices.ContainsFunc(statuses, func(s store.Status) bool { return s.State != store.Held }) {
		t.Fatalf("Keep: %v", err)
	}
	for _, c := range claims {
		line, err := s.Queue(t.Context(), c.Name)
		if err != nil || len(line.Entries) != 1 || len(line.Entries[0].Waits) != 80 {
			t.Fatalf("%d places, %v", len(line.Entries), err)
		}
	}
}

// Keep finds out what no event has told: that a claim was taken out, that another has become smaller, that one is next.
func TestKeepTellsWhatWatchesDoNot(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t)
	s, other := openAt(t, "etcd://"+server.Addr()), openAt(t, "etcd://"+server.Addr())
	writer, reader := claim("downgrade"), part("downgrade", store.Lock, 1, store.MaxReaders)
	testkit.Join(t, other, &writer, store.Held)
	testkit.Join(t, s, &reader, store.Waiting)
	first := testkit.Held(t, other, claim("next"))
	second, third := testkit.Waiting(t, other, claim("next")), testkit.Waiting(t, s, claim("next"))
	broken := testkit.Held(t, s, claim("broken"))
	testkit.Await(t, "all is watched", func() bool { return etcdstore.Watches(s) == 5 })
	etcdstore.Deafen(s)

	writer.Units = 1
	testkit.Keep(t, other, writer, store.Held)
	testkit.Keep(t, s, reader, store.Held)
	testkit.Leave(t, other, second)
	testkit.Keep(t, s, third, store.Waiting)
	testkit.Leave(t, other, first)
	testkit.Keep(t, s, third, store.Held)
	testkit.Must(t, other.Break(t.Context(), "broken", broken.Ticket))
	testkit.Keep(t, s, broken, store.Gone)
}

// A waiting claim that becomes smaller may hold at once beside those who are there.
func TestWaitingClaimShrinks(t *testing.T) {
	server := servers.Etcd(t)
	s, other := openAt(t, "etcd://"+server.Addr()), openAt(t, "etcd://"+server.Addr())
	reader, writer := part("a", store.Lock, 1, store.MaxReaders), claim("a")
	testkit.Join(t, other, &reader, store.Held)
	testkit.Join(t, s, &writer, store.Waiting)
	writer.Units = 1
	testkit.Keep(t, s, writer, store.Held)
	writer.Units = store.MaxReaders // one that was sent before, and is late
	testkit.Keep(t, s, writer, store.Held)
	line, err := s.Queue(t.Context(), "a")
	if err != nil || len(line.Entries) != 2 || line.Entries[1].Units != 1 || line.Entries[1].State != store.Held {
		t.Errorf("%+v, %v", line, err)
	}
}

// A look that fails is repeated: nobody has to ask for it.
func TestFailedLookIsRepeated(t *testing.T) {
	t.Parallel()
	server, f, s := newFerry(t, etcdstore.DefaultTTL)
	other := openAt(t, "etcd://"+server.Addr())
	held := listen(s)
	holder := testkit.Held(t, other, claim("a"))
	testkit.Waiting(t, s, claim("a"))
	testkit.Await(t, "all is watched", func() bool { return etcdstore.Watches(s) == 2 })
	failures := 0
	f.decide(func(r *etcdserverpb.TxnRequest) fate {
		if looks := slices.ContainsFunc(r.Success,
			func(op *etcdserverpb.RequestOp) bool { return op.GetRequestRange() != nil }); !looks ||
			failures == 4 {
			return delivered
		}
		failures++ // by every member, and then once more
		return stranded
	})
	testkit.Leave(t, other, holder)
	testkit.Await(t, "it is told", func() bool { return held() == 1 })
	testkit.Await(t, "only its own key is watched", func() bool { return etcdstore.Watches(s) == 1 })
	f.mu.Lock()
	defer f.mu.Unlock()
	if failures != 4 {
		t.Errorf("%d looks failed", failures)
	}
}

// says says whether a transaction writes the news of a claim.
func says(r *etcdserverpb.TxnRequest) bool {
	return slices.ContainsFunc(r.Success, func(op *etcdserverpb.RequestOp) bool {
		in := op.GetRequestTxn()
		return in != nil && len(in.Success) == 1 && in.Success[0].GetRequestPut().GetIgnoreLease() &&
			!in.Success[0].GetRequestPut().GetIgnoreValue()
	})
}

// What a Keep says that lands late, or whose answer was lost, never makes a claim greater again.
func TestLateNewsUndoNothing(t *testing.T) {
	_, f, s := newFerry(t, etcdstore.DefaultTTL)
	for name, first := range map[string]fate{"late": stranded, "answer lost": unanswered} {
		t.Run(name, func(t *testing.T) {
			c := testkit.Held(t, s, claim(name))
			great, small := c, c
			great.Turn, small.Units = 1, 1
			if first == unanswered { // then it is the smaller one that has landed, unknown to its client
				great, small = small, great
			}
			f.decide(func(r *etcdserverpb.TxnRequest) fate {
				if says(r) {
					return first
				}
				return delivered
			})
			if _, err := s.Keep(t.Context(), []store.Claim{great}); err == nil {
				t.Error("a Keep whose news were not answered for has no error")
			}
			f.free()
			testkit.Keep(t, s, small, store.Held)
			if first == stranded {
				f.land(t)
			}
			line, err := s.Queue(t.Context(), name)
			if err != nil || len(line.Entries) != 1 || line.Entries[0].Units != 1 {
				t.Errorf("%+v, %v", line.Entries, err)
			}
		})
	}
}

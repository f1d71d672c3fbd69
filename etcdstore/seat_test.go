package etcdstore_test

import (
	"slices"
	"testing"

	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// etcd goes through every key that there ever was when it reads a queue. A lock that made a new one each time would
// become slower with each use.
func TestKeysAreUsedAgain(t *testing.T) {
	t.Parallel()
	server, s := newServer(t, "")
	client := server.Client(t)
	before, err := client.Get(t.Context(), "x")
	testkit.Must(t, err)
	const times = 20
	for range times {
		first, second := testkit.Held(t, s, claim("busy")), testkit.Waiting(t, s, claim("busy"))
		for _, c := range []store.Claim{second, first} {
			testkit.Must(t, s.Leave(t.Context(), c))
		}
	}
	var keys []string
	puts := 0
	history := client.Watch(t.Context(), etcdstore.LineKey("busy"), clientv3.WithPrefix(),
		clientv3.WithRev(before.Header.Revision))
	for puts < 2*times {
		for _, e := range (<-history).Events {
			if e.IsCreate() {
				puts++
				keys = append(keys, string(e.Kv.Key))
			}
		}
	}
	slices.Sort(keys)
	if keys = slices.Compact(keys); len(keys) != 2 {
		t.Errorf("%d claims, never more than two at a time, had %d keys", puts, len(keys))
	}
}

// A Leave that lands late finds another claim in the seat. It is not that one's.
func TestLateLeaveSparesTheNext(t *testing.T) {
	t.Parallel()
	_, s := newServer(t, "")
	first, next := claim("seat"), claim("seat")
	testkit.Join(t, s, &first, store.Held)
	again, seat := etcdstore.LeaveOf(s, first), etcdstore.KeyOf(s, first)
	testkit.Must(t, s.Leave(t.Context(), first))
	testkit.Join(t, s, &next, store.Held)
	if at := etcdstore.KeyOf(s, next); at != seat {
		t.Fatalf("the next sits at %q, and %q is free", at, seat)
	}
	testkit.Must(t, again(t.Context()))
	testkit.Keep(t, s, next, store.Held)
}

// A Join that may still be on its way holds its seat until it is void.
func TestSeatIsFreeOnlyWhenNothingCanLand(t *testing.T) {
	s := etcdstore.NewSeats()
	a, b, c := store.ID{1}, store.ID{2}, store.ID{3}
	if first, second := s.Take("x", a), s.Take("x", a); first != second {
		t.Error("a claim that asks twice gets two seats")
	}
	if s.Take("x", a) == s.Take("x", b) {
		t.Error("two claims have one seat")
	}
	if s.Take("y", a) == s.Take("x", a) {
		t.Error("two lines have one key")
	}
	free := s.Take("x", a)
	s.Free("x", a)
	if got := s.Take("x", c); got != free {
		t.Errorf("the next sits at %s, and %s is free", got, free)
	}
	s.Free("x", a) // once more, though it is another's by now
	if s.Take("x", store.ID{4}) == free {
		t.Error("a seat was freed by one who has it no more")
	}
	for _, id := range []store.ID{b, c, {4}} {
		s.Free("x", id)
	}
	s.Free("y", a)
	if n := s.Names(); n != 0 {
		t.Errorf("%d names are remembered though nobody sits", n)
	}
}

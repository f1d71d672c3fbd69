package redisstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// What is left when a server has lost a part of what it knew: one key of a queue, its clock, or what was written of its
// run.

// loseFirstKey makes a queue of two, and takes its first key alone, as an operator may, or an eviction.
func loseFirstKey(t *testing.T, query string) (s *redisstore.Store, holder, waiter store.Claim) {
	t.Helper()
	server, s := newServer(t, query)
	holder, waiter = claim("torn"), claim("torn")
	testkit.Await(t, "the guard is over, if there is one", func() bool {
		early := claim("early")
		early.Try = true
		standing, err := s.Join(t.Context(), early)
		return err == nil && standing.State == store.Held
	})
	testkit.Join(t, s, &holder, store.Held)
	testkit.Join(t, s, &waiter, store.Waiting)
	if n := do(t, server, "DEL", redisstore.KeysOf("", "torn")[0]); n != "1" {
		t.Fatalf("%s keys were deleted, want one", n)
	}
	return s, holder, waiter
}

// A line whose first key is lost is lost as a whole. Its claims are gone, and nobody stands in it.
func TestFirstKeyLostIsLineLost(t *testing.T) {
	s, holder, waiter := loseFirstKey(t, "")
	testkit.Keep(t, s, holder, store.Gone)
	testkit.Keep(t, s, waiter, store.Gone)
	line, err := s.Queue(t.Context(), "torn")
	if err != nil || len(line.Entries) != 0 {
		t.Errorf("the line is %+v and %v, want an empty one", line, err)
	}
}

// What is left of such a queue does not come back to life in the next one: a writer of before must not hold beside a
// reader of now.
func TestFirstKeyLostLeavesNobodyBehind(t *testing.T) {
	s, holder, waiter := loseFirstKey(t, "")
	now, next := reader("torn"), claim("torn")
	testkit.Join(t, s, &now, store.Held)
	testkit.Join(t, s, &next, store.Waiting) // the queue takes the form for many again
	testkit.Leave(t, s, holder)
	testkit.Keep(t, s, waiter, store.Gone)
	testkit.Keep(t, s, now, store.Held)
	line, err := s.Queue(t.Context(), "torn")
	if err != nil || len(line.Entries) != 2 {
		t.Errorf("the line is %+v and %v, want the two who joined last", line, err)
	}
}

// Whoever holds the lock after such a loss goes on holding it when others join. The tickets of before are lower, and
// must not come to stand before his.
func TestFirstKeyLostKeepsNewHolder(t *testing.T) {
	s, holder, _ := loseFirstKey(t, "")
	now, next := testkit.Held(t, s, claim("torn")), testkit.Waiting(t, s, claim("torn"))
	testkit.Keep(t, s, now, store.Held)
	testkit.Leave(t, s, holder)
	testkit.Keep(t, s, now, store.Held)
	testkit.Keep(t, s, next, store.Waiting)
	testkit.Leave(t, s, now)
	testkit.Keep(t, s, next, store.Held)
}

// With a startup delay a Join looks at the whole queue, and must not take what is left of it for claims that stand.
func TestFirstKeyLostWithStartupDelay(t *testing.T) {
	t.Parallel()
	s, holder, waiter := loseFirstKey(t, "?startup-delay=200ms")
	now := testkit.Held(t, s, claim("torn"))
	testkit.Keep(t, s, holder, store.Gone)
	testkit.Keep(t, s, waiter, store.Gone)
	testkit.Keep(t, s, now, store.Held)
}

// The first key is there and counts holders, and all others are lost: who comes next is not let in as the last of them.
func TestOrderLostLetsOneIn(t *testing.T) {
	server, s := newServer(t, "")
	for range 3 {
		testkit.Held(t, s, reader("orderless"))
	}
	if n := do(t, server, append([]string{"DEL"}, redisstore.KeysOf("", "orderless")[1:]...)...); n != "3" {
		t.Fatalf("%s keys were deleted, want three", n)
	}
	first, second := testkit.Held(t, s, claim("orderless")), testkit.Waiting(t, s, claim("orderless"))
	testkit.Leave(t, s, first)
	testkit.Keep(t, s, second, store.Held)
}

// A startup delay counts from a time by the server's clock. If that is set back by an hour, the startup delay begins
// again, and does not last for an hour.
func TestStartupDelayWhenClockIsSetBack(t *testing.T) {
	t.Parallel()
	clock := servers.NewClock(t)
	_, s := newServer(t, "?startup-delay=1s", servers.Env(clock.Env()...))
	clock.Step(-time.Hour)
	c := claim("set back")
	standing := testkit.Join(t, s, &c, store.Waiting)
	if again := time.Until(standing.RecheckAt); again > time.Second+100*time.Millisecond {
		t.Fatalf("the guard is 1s, and who waits for its end is to ask again in %v", again)
	}
	testkit.AwaitHeld(t, s, c)
}

// With a startup delay, every call looks at what is written of the server's run. What a newer version has written there
// is refused and left alone.
func TestStartupDelayLeavesNewerRunAlone(t *testing.T) {
	const run, future = "holdfast:{}:run", "2 something of the future"
	server, s := newServer(t, "?startup-delay=1s")
	do(t, server, "SET", run, future)
	for name, call := range testkit.Calls(s, claim("newer")) {
		err := call(t.Context())
		if name != "Names" && !errors.Is(err, store.ErrFormat) { // Names finds nobody to ask about
			t.Errorf("%s: %v, want %v", name, err, store.ErrFormat)
		}
		if now := do(t, server, "GET", run); now != future {
			t.Fatalf("%s has made %q of the run", name, now)
		}
	}
}

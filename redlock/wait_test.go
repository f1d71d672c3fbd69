package redlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/store"
)

// A listener is a store of which one claim waits, and hears of nothing but pushes for a long time.
type listener struct {
	*redlock.Store
	claim store.Claim
	told  <-chan store.ID
}

// listen has a claim wait for a lock that somebody holds at all nodes. When it returns, the claim is told of releases:
// it has lost once more since it listens.
func listen(t *testing.T, s *redlock.Store, name string) *listener {
	t.Helper()
	s.SetPoll(time.Hour)
	l := &listener{s, claimOf(name), testkit.Listen(s)}
	standing, err := s.Join(t.Context(), l.claim)
	l.waits(t, standing, err)
	l.isTold(t) // that it listens now, and may have missed something
	all, err := s.Keep(t.Context(), []store.Claim{l.claim})
	testkit.Must(t, err)
	l.waits(t, all[0], all[0].Err)
	return l
}

func (l *listener) waits(t *testing.T, standing store.Status, err error) {
	t.Helper()
	if err != nil || standing.State != store.Waiting || standing.Ticket != 0 ||
		time.Until(standing.RecheckAt) < 20*time.Second {
		t.Fatalf("%+v, %v", standing, err)
	}
}

func (l *listener) isTold(t *testing.T) {
	t.Helper()
	if id := testkit.NextTold(t, l.told, "the waiter is told"); id != l.claim.ID {
		t.Fatalf("a push for %v", id)
	}
}

// gets waits until the claim has the lock.
func (l *listener) gets(t *testing.T) {
	t.Helper()
	testkit.Await(t, "the waiter holds", func() bool { return testkit.Holds(t.Context(), l, l.claim) })
}

// TestWaiterIsTold: a release is pushed to who waits, long before he would look by himself.
func TestWaiterIsTold(t *testing.T) {
	t.Parallel()
	f := newCalmFleet(t, 3)
	a, b := f.open(t), f.open(t)
	holder := testkit.Held(t, a, claimOf("told"))
	settled(t, a) // at all nodes, or the waiter may be the first at one of them
	waiter := listen(t, b, "told")
	testkit.Must(t, a.Leave(t.Context(), holder))
	waiter.isTold(t)
	waiter.gets(t)
}

// TestTryNamesTheHolder: a lost try is gone, and says who has the lock.
func TestTryNamesTheHolder(t *testing.T) {
	t.Parallel()
	f := newCalmFleet(t, 3)
	a, b := f.open(t), f.open(t)
	holder, other := claimOf("try"), claimOf("try")
	holder.Ticket = hold(t, a, holder).Ticket
	other.Try = true
	standing, err := b.Join(t.Context(), other)
	if err != nil || standing.State != store.Gone || standing.Holder == nil || standing.Holder.ID != holder.ID ||
		standing.Holder.Owner.Label != "test" {
		t.Fatalf("%+v, %v", standing, err)
	}
	line, err := b.Queue(t.Context(), "try")
	if err != nil || len(line.Entries) != 1 || line.Entries[0].ID != holder.ID ||
		line.Entries[0].Ticket != holder.Ticket {
		t.Fatalf("%+v, %v", line, err)
	}
	// Another library has the key: it is a stranger, and cannot be broken.
	for _, n := range f.nodes {
		do(t, n, "SET", "theirs", "redsync's value", "PX", "600000")
	}
	other.Name = "theirs"
	if standing, err = b.Join(t.Context(), other); err != nil ||
		!strings.Contains(standing.Holder.Owner.String(), "redsync's value") {
		t.Errorf("%+v, %v", standing, err)
	}
	if err := b.Break(t.Context(), "theirs", holder.Ticket); !errors.Is(err, store.ErrNotHeld) {
		t.Error(err)
	}
}

// TestUnsupported: what redlock lacks is refused with a sentence that says where it is.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	s := newCalmFleet(t, 3).open(t)
	reader := claimOf("shared")
	reader.Units = 1
	_, err := s.Join(t.Context(), reader)
	for _, namesErr := range s.Names(t.Context(), "") {
		err = errors.Join(err, namesErr)
	}
	if !errors.Is(err, store.ErrUnsupported) || strings.Count(err.Error(), "redis://") != 2 {
		t.Error(err)
	}
	if _, is := store.Store(s).(store.Detacher); is || s.Abilities().Detach {
		t.Error("it says that locks can be detached")
	}
	if _, err := s.Join(t.Context(), claimOf("holdfast:{}:redlock")); !errors.Is(err, store.ErrBadName) {
		t.Errorf("one of our own keys: %v", err)
	}
}

// TestJeopardy: that a node does not count for a lock that is held is logged once, and once that it counts again.
func TestJeopardy(t *testing.T) {
	t.Parallel()
	f := newCalmFleet(t, 3)
	var log testkit.Log
	s := f.open(t, redlock.WithLogger(log.Logger()))
	c := testkit.Held(t, s, claimOf("jeopardy"))
	keep := func() { testkit.Keep(t, s, c, store.Held) }
	_, err := redlock.Trust(t.Context(), f.url(""), f.nodes[1].Addr())
	testkit.Must(t, err)
	testkit.Must(t, f.nodes[1].Stop())
	testkit.Await(t, "the warning", func() bool { keep(); return log.Count("jeopardy", f.nodes[1].Addr()) > 0 })
	keep()
	keep()
	testkit.Must(t, f.nodes[1].Start())
	testkit.Await(t, "the end of it", func() bool { keep(); return log.Count("counts again", f.nodes[1].Addr()) > 0 })
	if n := log.Count("jeopardy"); n != 1 {
		t.Errorf("it was warned %d times, want once: %q", n, log.Take())
	}
	if s.Health(t.Context())[1].MissedRenewal {
		t.Error("it still counts as missed")
	}
}

// TestPasswords: a wrong one is final, and never repeated.
func TestPasswords(t *testing.T) {
	t.Parallel()
	f := newFreshFleet(t, 3, servers.Password("right"))
	hosts := strings.Join(f.addresses(), ",")
	_, err := redlock.Init(t.Context(), "redlock://:right@"+hosts)
	testkit.Must(t, err)
	open := func(raw string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		s, err := redlock.Open(ctx, raw)
		if err == nil {
			s.Close()
		}
		return err
	}
	testkit.Check(t, open("redlock://:right@"+hosts))
	err = open("redlock://:sesame@" + hosts)
	if !store.Final(err) || strings.Count(err.Error(), "it does not know this user and password") != 3 ||
		strings.Contains(err.Error(), "sesame") {
		t.Error(err)
	}
}

// TestSmallestUser: what the package's documentation says a user needs is enough for everything.
func TestSmallestUser(t *testing.T) {
	t.Parallel()
	user := "user app on >secret ~app:* ~holdfast:{}:redlock* &holdfast:{}:redlock:freed:* " +
		"+eval +evalsha +mget +set +del +exists +pexpire +pttl +time +publish +get +info +subscribe +unsubscribe " +
		"+ping +hello"
	f := newFreshFleet(t, 3, servers.ACL("user default off", user))
	at := "redlock://app:secret@" + strings.Join(f.addresses(), ",") + "?prefix=app:&" + calm
	_, err := redlock.Init(t.Context(), at)
	testkit.Must(t, err)
	a, err := redlock.Open(t.Context(), at, redlock.WithLogger(silent))
	testkit.Must(t, err)
	defer a.Close()
	holder := testkit.Held(t, a, claimOf("least"))
	settled(t, a)
	waiter := listen(t, a, "least")
	testkit.Must(t, a.Leave(t.Context(), holder))
	waiter.isTold(t)
	waiter.gets(t)
	testkit.Must(t, a.Leave(t.Context(), waiter.claim))
	testkit.Await(t, "all vote", func() bool { return allVote(a.Health(t.Context())) })
}

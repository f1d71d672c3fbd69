package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// What it means to wait for replicas, while nobody fails over.

// While a replica lags nothing is granted, and what is refused is withdrawn.
func TestUnacknowledgedGrantIsWithdrawn(t *testing.T) {
	t.Parallel()
	s := newSuccession(t, 1)
	a, _ := s.client(20*time.Second, "?wait-replicas=1&wait-timeout=50ms")
	s.Must(s.Replicas[0].Lag())
	_, err := a.Mutex(witnessed).TryLock(t.Context())
	checkFault(t, err, false, "0 of 1 replicas have acknowledged within 50ms")
	testkit.Await(t, "it is withdrawn", func() bool {
		line, err := a.Inspect(t.Context(), witnessed)
		return err == nil && len(line.Holders()) == 0
	})
	s.Must(s.Replicas[0].CatchUp())
	s.Take(a)
}

// So it is for a caller without a deadline, whose call is bounded by a context that many share.
func TestUnacknowledgedGrantWithoutDeadline(t *testing.T) {
	t.Parallel()
	s := newSuccession(t, 1)
	a, _ := s.client(20*time.Second, "?wait-replicas=1&wait-timeout=50ms")
	s.Must(s.Replicas[0].Lag())
	lease, err := a.Mutex(witnessed).TryLock(context.Background())
	if err == nil {
		t.Fatalf("granted with token %v, and no replica has acknowledged", lease.Token())
	}
}

// A Join that waits for the round before it is not sent when its caller has given up: the tombstone of its Leave may be
// over before it would land.
func TestJoinDoesNotOutliveItsTombstone(t *testing.T) {
	t.Parallel()
	r := servers.RedisReplicas(t, 1)
	acknowledged(t, r.Master, 1)
	s := openAt(t, "redis://"+r.Master.Addr()+"?wait-replicas=1&wait-timeout=3s")
	testkit.Held(t, s, claim("warm"))
	testkit.Must(t, r.Replicas[0].Lag())
	before := calls(t, r.Master, "evalsha")
	busy := make(chan error, 1)
	go func() { _, err := s.Join(t.Context(), claim("busy")); busy <- err }()
	testkit.Await(t, "the round is in progress", func() bool { return calls(t, r.Master, "evalsha") > before })
	late := claim("late")
	late.TTL = time.Second
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Join(short, late); err == nil {
		t.Fatal("joined")
	}
	testkit.Leave(t, s, late)
	if err := <-busy; err == nil {
		t.Fatal("granted, and the replica lags")
	}
	testkit.Must(t, r.Replicas[0].CatchUp())
	after := claim("after") // goes with a later round than the one that would have been next
	testkit.Join(t, s, &after, store.Held)
	if line, err := s.Queue(t.Context(), late.Name); err != nil || len(line.Entries) > 0 {
		t.Errorf("it stands in the line after its Leave: %+v %v", line.Entries, err)
	}
}

// A renewal that replicas do not have is none: the lease ends when its last one that counted does.
func TestUnacknowledgedRenewalIsNone(t *testing.T) {
	t.Parallel()
	s := newSuccession(t, 1)
	a, _ := s.client(3*time.Second, "?wait-replicas=1&wait-timeout=50ms")
	held := s.Take(a)
	s.Must(s.Replicas[0].Lag())
	s.MustLose(held, testkit.Patience, "could not be renewed")
}

// A release grants the lock to the next in queue. That counts when a Keep of the next has been acknowledged, and not by
// the push alone.
func TestPushedGrantIsConfirmed(t *testing.T) {
	t.Parallel()
	r := servers.RedisReplicas(t, 1)
	acknowledged(t, r.Master, 1)
	s := openAt(t, "redis://"+r.Master.Addr()+"?wait-replicas=1&wait-timeout=2s")
	told := make(chan store.Status, 10)
	s.Notify(func(_ store.ID, standing store.Status) { told <- standing })
	holder := testkit.Held(t, s, claim("pushed"))
	waiter, last := testkit.Waiting(t, s, claim("pushed")), testkit.Waiting(t, s, claim("pushed"))
	testkit.Leave(t, s, holder)
	toAsk := func() {
		t.Helper()
		select {
		case standing := <-told:
			if standing.State != store.Waiting || standing.Ticket != 0 {
				t.Errorf("told of %+v, which no replica has acknowledged", standing)
			}
		case <-time.After(testkit.Patience):
			t.Fatal("nobody was told")
		}
	}
	toAsk()
	testkit.Keep(t, s, waiter, store.Held)
	testkit.Must(t, r.Replicas[0].Lag())
	testkit.Leave(t, s, waiter)
	toAsk()
	if _, err := s.Keep(t.Context(), []store.Claim{last}); err == nil {
		t.Error("it counts, and the replica lags")
	}
	testkit.Must(t, r.Replicas[0].CatchUp())
	testkit.Await(t, "it counts", func() bool { return testkit.Holds(t.Context(), s, last) })
}

// Those who ask at the same time wait together: one WAIT is for all that came while the last one was in progress.
func TestRoundsAreShared(t *testing.T) {
	r := servers.RedisReplicas(t, 1)
	s := openAt(t, "redis://"+r.Master.Addr()+"?wait-replicas=1&wait-timeout=300ms")
	testkit.Must(t, r.Replicas[0].Lag())
	const many = 50
	began := time.Now()
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			c := claim(fmt.Sprint("shared ", i))
			if _, err := s.Join(t.Context(), c); err == nil {
				t.Error("granted, and the replica lags")
			}
		})
	}
	all.Wait()
	// Each for itself: 15 seconds.
	if took, n := time.Since(began), calls(t, r.Master, "wait"); n > many/5 || took > 10*time.Second {
		t.Errorf("%d calls at once took %v and %d times WAIT", many, took, n)
	}
}

func TestWaitReplicasOptions(t *testing.T) {
	server := servers.Redis(t)
	refuseQueries(t, "redis://"+server.Addr(), map[string]string{
		"wait-replicas=0":                    "wait-replicas is a number",
		"wait-replicas=x":                    "wait-replicas is a number",
		"wait-replicas=1&wait-timeout=x":     "wait-timeout is a duration",
		"wait-replicas=1&wait-timeout=0s":    "wait-timeout is a duration",
		"wait-replicas=1&wait-timeout=1h":    "wait-timeout is a duration",
		"wait-timeout=1s":                    "goes with wait-replicas",
		"wait-replicas=1&wait-timeout=100us": "wait-timeout is a duration",
	})
}

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// What a failover can lose, and what waiting for replicas saves. Here a test is who promotes replicas, so that nothing
// is left to chance: what has reached which of them, and who is promoted when.

// A line of succession is a master and its replicas, with one address that leads to whoever is the master.
type succession struct {
	*witness
	*servers.RedisReplicaServers
	gate fence.Gate
	mu   sync.Mutex
}

func newSuccession(t *testing.T, replicas int) *succession {
	t.Helper()
	w := &witness{T: t, dir: evidence(t), clients: map[*holdfast.Client]string{}}
	var err error
	if w.recorder, err = history.Create(w.dir, t.Name()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.recorder.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &succession{witness: w, RedisReplicaServers: servers.RedisReplicas(t, replicas)}
	acknowledged(t, s.Master, replicas)
	return s
}

// acknowledged waits until so many replicas have all that this server has written. A new one takes a second to begin.
func acknowledged(t testing.TB, master *servers.RedisServer, replicas int) {
	t.Helper()
	if err := awaitReplicas(master, replicas); err != nil {
		t.Fatal(err)
	}
}

// awaitReplicas writes something before it waits: WAIT is about what its own connection has written.
func awaitReplicas(master *servers.RedisServer, replicas int) error {
	conn, err := master.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, args := range [][]string{{"SET", "warm", "x"}, {"DEL", "warm"}} {
		if _, err := conn.Do(args...); err != nil {
			return err
		}
	}
	if n, err := conn.Do("WAIT", fmt.Sprint(replicas), "5000"); err != nil || n != int64(replicas) {
		return fmt.Errorf("WAIT: %v and %v, want %d", n, err, replicas) //nolint:errorlint // there may be none
	}
	return nil
}

// master is where the address leads now.
func (s *succession) master() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Master.Addr()
}

// promote makes a replica the master.
func (s *succession) promote(i int) {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.must(s.Promote(i))
}

// rejoin makes the old master a replica again, which was killed.
func (s *succession) rejoin(i int) {
	s.Helper()
	s.must(s.Replicas[i].Start())
	s.must(s.Replicas[i].Follow(s.Master))
	acknowledged(s, s.Master, len(s.Replicas))
}

func (s *succession) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// client opens a client. It can be cut off.
func (s *succession) client(ttl time.Duration, query string) (locks *holdfast.Client, cut func() (mend func())) {
	s.Helper()
	all := append([]*servers.RedisServer{s.Master}, s.Replicas...)
	ways := newWays(s, all)
	kept, err := redisstore.OpenDetour(s.Context(), locate(s, "redis://succession:6379"+query),
		func(string) string { return ways.detour(s.master()) })
	s.must(err)
	locks = holdfast.New(kept, holdfast.TTL(ttl))
	s.Cleanup(func() { locks.Close() })
	s.clients[locks] = fmt.Sprintf("client %d", len(s.clients)+1)
	return locks, func() func() {
		var mends []func()
		for _, p := range ways {
			mends = append(mends, p.Cut())
		}
		return func() {
			for _, mend := range mends {
				mend()
			}
		}
	}
}

// write writes to what the lock protects, behind a fence.
func (s *succession) write(held *testimony) error { return s.gate.Enter(held.lease.Token()) }

// mustBeRefused demands that the fence lets the second write and not the first.
func (s *succession) mustBeRefused(first, second *testimony) {
	s.Helper()
	s.must(s.write(second))
	if err := s.write(first); !errors.Is(err, holdfast.ErrStale) {
		s.Errorf("the late write of a holder who does not know of the other: %v, want %v", err, holdfast.ErrStale)
	}
}

// locked says whether the lock is taken, as a client sees it that does not wait.
func (s *succession) locked(locks *holdfast.Client) bool {
	s.Helper()
	lease, err := locks.Mutex(witnessed).TryLock(s.Context())
	if err == nil {
		s.must(lease.Unlock(s.Context()))
		return false
	}
	if !errors.Is(err, holdfast.ErrLocked) {
		s.Fatalf("TryLock: %v", err)
	}
	return true
}

// The master dies before its replica has the grant. The new master grants the lock again. The tokens rise all the same,
// so that a fence refuses the old holder, who learns of it from its next renewal.
func TestFailoverBeforeReplication(t *testing.T) {
	s := newSuccession(t, 1)
	a, cut := s.client(20*time.Second, "")
	b, _ := s.client(20*time.Second, "")
	s.must(s.Replicas[0].Lag())
	first := s.take(a)
	mend := cut()
	s.must(s.Master.Kill())
	s.promote(0)
	second := s.take(b)
	s.mustBeRefused(first, second)
	s.mustOverlap(first, second)
	mend()
	s.mustLose(first)
}

// The same where the grant was replicated: the new master knows it.
func TestFailoverAfterReplication(t *testing.T) {
	s := newSuccession(t, 1)
	a, _ := s.client(20*time.Second, "")
	b, _ := s.client(20*time.Second, "")
	first := s.take(a)
	acknowledged(t, s.Master, 1)
	s.must(s.Master.Kill())
	s.promote(0)
	if !s.locked(b) {
		t.Error("the new master does not know of a grant that was replicated")
	}
	s.giveBack(first)
	second := s.take(b)
	s.mustExclude(first, second)
}

// The old master lives on with one of its clients, and neither knows that there is a new one. Each side has a holder, for
// as long as it lasts. When the old master follows the new one, its holder learns of it.
func TestSplit(t *testing.T) {
	t.Parallel()
	s := newSuccession(t, 1)
	a, _ := s.client(3*time.Second, "")
	s.must(s.Replicas[0].Lag())
	first := s.take(a)
	old := s.Master
	s.promote(0)
	b, _ := s.client(3*time.Second, "")
	second := s.take(b)
	renewed := first.lease.Until()
	await(t, "the old master renews the lease", func() bool { return first.lease.Until().After(renewed) })
	s.mustBeRefused(first, second)
	s.mustOverlap(first, second)
	s.must(old.Follow(s.Master))
	select {
	case <-first.lease.Context().Done():
	case <-time.After(10 * time.Second):
		t.Error("the old master is a replica now, and its holder still believes")
	}
}

// With WaitReplicas the old master's holder is not renewed: its replicas have left it. And the new master knows the
// grant, so that nobody else is let in before that lease is over.
func TestSplitWithWaitReplicas(t *testing.T) {
	t.Parallel()
	s := newSuccession(t, 1)
	const query = "?wait-replicas=1&wait-timeout=100ms"
	a, _ := s.client(2*time.Second, query)
	first := s.take(a)
	old := s.Master
	s.promote(0)
	b, _ := s.client(2*time.Second, "")
	if !s.locked(b) {
		t.Error("the new master does not know of a grant that counted")
	}
	second := s.take(b)
	s.mustExclude(first, second)
	if err := first.lease.Err(); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("the lease of a client in the split: %v, want %v", err, holdfast.ErrLost)
	}
	s.must(old.Follow(s.Master))
}

// WaitReplicas(1), and the one of two that lags is promoted by force: the grant counted, and is lost. So n must be the
// number of all that may be promoted.
func TestWaitForTooFewReplicas(t *testing.T) {
	s := newSuccession(t, 2)
	const query = "?wait-replicas=1"
	a, cut := s.client(20*time.Second, query)
	b, _ := s.client(20*time.Second, query)
	s.must(s.Replicas[0].Lag())
	first := s.take(a)
	mend := cut()
	s.must(s.Master.Kill())
	s.promote(0)
	second := s.take(b)
	s.mustBeRefused(first, second)
	s.mustOverlap(first, second)
	mend()
	s.mustLose(first)
}

// With WaitReplicas(2) on two replicas, whichever is promoted knows of every grant that counted, also the one that lags.
// What it does not know was no grant.
func TestWaitReplicasThroughFailovers(t *testing.T) {
	t.Parallel()
	s := newSuccession(t, 2)
	const failovers, query = 50, "?wait-replicas=2&wait-timeout=200ms"
	a, _ := s.client(20*time.Second, query)
	b, _ := s.client(20*time.Second, query)
	var all []*testimony
	take := func(locks *holdfast.Client) *testimony {
		var held *testimony
		await(t, "a grant counts", func() bool { // a first call on a connection that has just died is an error
			lease, err := locks.Mutex(witnessed).Lock(t.Context())
			if err != nil {
				return false
			}
			held = s.testify(locks, lease)
			return true
		})
		all = append(all, held)
		return held
	}
	fail := func(i int) {
		s.must(s.Master.Kill())
		s.promote(i)
	}
	for i := range failovers {
		next := i % 2
		switch i % 5 {
		case 3: // a grant that the one does not have who is promoted
			s.must(s.Replicas[next].Lag())
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			lease, err := a.Mutex(witnessed).Lock(ctx)
			cancel()
			if err == nil {
				t.Fatalf("granted with token %v while a replica lags", lease.Token())
			}
			fail(next)
		case 4: // one that it has, and then it lags
			held := take(a)
			s.must(s.Replicas[next].Lag())
			fail(next)
			if !s.locked(b) {
				t.Errorf("failover %d lost a grant", i)
			}
			s.giveBack(held)
		default:
			held := take(a)
			fail(next)
			if !s.locked(b) {
				t.Errorf("failover %d lost a grant", i)
			}
			s.giveBack(held)
		}
		s.rejoin(next)
		s.giveBack(take(b))
	}
	s.mustExclude(all...)
}

// While a replica lags nothing is granted, and what is refused is withdrawn.
func TestUnacknowledgedGrantIsWithdrawn(t *testing.T) {
	s := newSuccession(t, 1)
	a, _ := s.client(20*time.Second, "?wait-replicas=1&wait-timeout=50ms")
	s.must(s.Replicas[0].Lag())
	_, err := a.Mutex(witnessed).TryLock(t.Context())
	checkFault(t, err, false, "0 of 1 replicas have acknowledged within 50ms")
	await(t, "it is withdrawn", func() bool {
		line, err := a.Inspect(t.Context(), witnessed)
		return err == nil && len(line.Holders()) == 0
	})
	s.must(s.Replicas[0].CatchUp())
	s.take(a)
}

// So it is for a caller without a deadline, whose call is bounded by a context that many share.
func TestUnacknowledgedGrantWithoutDeadline(t *testing.T) {
	s := newSuccession(t, 1)
	a, _ := s.client(20*time.Second, "?wait-replicas=1&wait-timeout=50ms")
	s.must(s.Replicas[0].Lag())
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
	warm := claim("warm")
	join(t, s, &warm, store.Held)
	if err := r.Replicas[0].Lag(); err != nil {
		t.Fatal(err)
	}
	before := calls(t, r.Master, "evalsha")
	busy := make(chan error, 1)
	go func() { _, err := s.Join(t.Context(), claim("busy")); busy <- err }()
	await(t, "the round is under way", func() bool { return calls(t, r.Master, "evalsha") > before })
	late := claim("late")
	late.TTL = time.Second
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Join(short, late); err == nil {
		t.Fatal("joined")
	}
	leave(t, s, late)
	if err := <-busy; err == nil {
		t.Fatal("granted, and the replica lags")
	}
	if err := r.Replicas[0].CatchUp(); err != nil {
		t.Fatal(err)
	}
	after := claim("after") // goes with a later round than the one that would have been next
	join(t, s, &after, store.Held)
	if line, err := s.Line(t.Context(), late.Name); err != nil || len(line.Places) > 0 {
		t.Errorf("it stands in the line after its Leave: %+v %v", line.Places, err)
	}
}

// A master that was replaced and never heard of it is the master again, with less than its successor had given out. It is
// the same run of the server, but not the same reign.
func TestTicketsRiseWhenOldMasterIsBack(t *testing.T) {
	r := servers.RedisReplicas(t, 1)
	acknowledged(t, r.Master, 1)
	old, successor := r.Master, r.Replicas[0]
	draw := func(at *servers.RedisServer) uint64 {
		s := openAt(t, "redis://"+at.Addr())
		defer s.Close()
		c := claim("run")
		join(t, s, &c, store.Held)
		leave(t, s, c)
		return c.Ticket
	}
	first := draw(old)
	if err := r.Promote(0); err != nil {
		t.Fatal(err)
	}
	second := draw(successor)
	if err := successor.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"REPLICAOF", "127.0.0.1", "1"}, {"REPLICAOF", "NO", "ONE"}} { // demoted, and promoted
		do(t, old, args...)
	}
	if third := draw(old); third <= second {
		t.Errorf("tickets: %d, %d by its successor, then %d", first, second, third)
	}
}

// A renewal that replicas do not have is none: the lease ends when its last one that counted does.
func TestUnacknowledgedRenewalIsNone(t *testing.T) {
	t.Parallel()
	s := newSuccession(t, 1)
	a, _ := s.client(time.Second, "?wait-replicas=1&wait-timeout=50ms")
	held := s.take(a)
	s.must(s.Replicas[0].Lag())
	select {
	case <-held.lease.Context().Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the lease lasts, and no replica has heard of its renewals")
	}
	if err := held.lease.Err(); !errors.Is(err, holdfast.ErrLost) || !strings.Contains(err.Error(), "could not be renewed") {
		t.Errorf("%v, want %v for want of renewal", err, holdfast.ErrLost)
	}
}

// A release grants the lock to the next in line. That counts when a Keep of the next has been acknowledged, and not by
// the push alone.
func TestPushedGrantIsConfirmed(t *testing.T) {
	r := servers.RedisReplicas(t, 1)
	acknowledged(t, r.Master, 1)
	s := openAt(t, "redis://"+r.Master.Addr()+"?wait-replicas=1&wait-timeout=100ms")
	told := make(chan store.Standing, 10)
	s.Notify(func(_ store.ID, standing store.Standing) { told <- standing })
	holder, waiter, last := claim("pushed"), claim("pushed"), claim("pushed")
	join(t, s, &holder, store.Held)
	join(t, s, &waiter, store.Waiting)
	join(t, s, &last, store.Waiting)
	leave(t, s, holder)
	select {
	case standing := <-told:
		if standing.State != store.Held || standing.Ticket != waiter.Ticket {
			t.Errorf("told of %+v", standing)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("nobody was told")
	}
	if err := r.Replicas[0].Lag(); err != nil {
		t.Fatal(err)
	}
	before := calls(t, r.Master, "wait")
	leave(t, s, waiter)
	await(t, "the grant is asked after", func() bool { return calls(t, r.Master, "wait") > before })
	if _, err := s.Keep(t.Context(), []store.Claim{last}); err == nil {
		t.Error("it counts, and the replica lags")
	}
	if len(told) > 0 {
		t.Errorf("told of %+v, which no replica has", <-told)
	}
	if err := r.Replicas[0].CatchUp(); err != nil {
		t.Fatal(err)
	}
	await(t, "it counts", func() bool {
		standings, err := s.Keep(t.Context(), []store.Claim{last})
		return err == nil && standings[0].State == store.Held
	})
}

// Those who ask at the same time wait together: one WAIT is for all that came while the last one was under way.
func TestRoundsAreShared(t *testing.T) {
	r := servers.RedisReplicas(t, 1)
	s := openAt(t, "redis://"+r.Master.Addr()+"?wait-replicas=1&wait-timeout=300ms")
	if err := r.Replicas[0].Lag(); err != nil {
		t.Fatal(err)
	}
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
	if took, n := time.Since(began), calls(t, r.Master, "wait"); n > 5 || took > 5*time.Second {
		t.Errorf("%d calls at once took %v and %d times WAIT", many, took, n)
	}
}

func TestWaitReplicasOptions(t *testing.T) {
	server := servers.Redis(t)
	for query, says := range map[string]string{
		"wait-replicas=0":                    "wait-replicas is a number",
		"wait-replicas=x":                    "wait-replicas is a number",
		"wait-replicas=1&wait-timeout=x":     "wait-timeout is a duration",
		"wait-replicas=1&wait-timeout=0s":    "wait-timeout is a duration",
		"wait-replicas=1&wait-timeout=1h":    "wait-timeout is a duration",
		"wait-timeout=1s":                    "goes with wait-replicas",
		"wait-replicas=1&wait-timeout=100us": "wait-timeout is a duration",
	} {
		if _, err := tryOpen(t, "redis://"+server.Addr()+"?"+query); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, which does not say %q", query, err, says)
		}
	}
}

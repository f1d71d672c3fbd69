package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
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
	s := &succession{witness: newWitness(t, nil), RedisReplicaServers: servers.RedisReplicas(t, replicas)}
	acknowledged(t, s.Master, replicas)
	return s
}

// acknowledged waits until so many replicas have all that this server has written. A new one takes a second to begin.
func acknowledged(t testing.TB, master *servers.RedisServer, replicas int) {
	t.Helper()
	testkit.Must(t, awaitReplicas(master, replicas))
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
	if n, err := conn.Do("WAIT", fmt.Sprint(replicas), "15000"); err != nil || n != int64(replicas) {
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
	s.Must(s.Promote(i))
}

// rejoin makes the old master a replica again, which was killed.
func (s *succession) rejoin(i int) {
	s.Helper()
	s.Must(s.Replicas[i].Start())
	s.Must(s.Replicas[i].Follow(s.Master))
	acknowledged(s, s.Master, len(s.Replicas))
}

// client opens a client. It can be cut off.
func (s *succession) client(ttl time.Duration, query string) (locks *holdfast.Client, cut func() (mend func())) {
	s.Helper()
	all := append([]*servers.RedisServer{s.Master}, s.Replicas...)
	ways := newWays(s, all)
	kept := openDetour(s, "redis://succession:6379"+query, func(string) string {
		master := s.master()
		return ways.Detour(master)
	})
	return s.Add(holdfast.New(kept, holdfast.WithTTL(ttl))), ways.Cut
}

// write writes to what the lock protects, behind a fence.
func (s *succession) write(held *testkit.Hold) error { return s.gate.Enter(held.Token()) }

// mustBeRefused demands that the fence lets the second write and not the first.
func (s *succession) mustBeRefused(first, second *testkit.Hold) {
	s.Helper()
	s.Must(s.write(second))
	if err := s.write(first); !errors.Is(err, holdfast.ErrStale) {
		s.Errorf("the late write of a holder who does not know of the other: %v, want %v", err, holdfast.ErrStale)
	}
}

// locked reports whether the lock is taken, as a client sees it that does not wait. A first call on a connection that
// has just died is an error, and made again.
func (s *succession) locked(locks *holdfast.Client) (locked bool) {
	s.Helper()
	testkit.Await(s, "a client sees whether the lock is taken", func() bool {
		lease, err := locks.Mutex(witnessed).TryLock(s.Context())
		if err == nil {
			s.Must(lease.Unlock(s.Context()))
			return true
		}
		if locked = errors.Is(err, holdfast.ErrLocked); !locked && !testkit.Passes(err) {
			s.Fatalf("TryLock: %v", err)
		}
		return locked
	})
	return locked
}

// The master dies before its replica has the grant. The new master grants the lock again. The tokens rise all the same,
// so that a fence refuses the old holder, who learns of it from its next renewal.
func TestFailoverBeforeReplication(t *testing.T) {
	t.Parallel()
	newSuccession(t, 1).losesGrant("")
}

// losesGrant lets the master die, and promotes a replica that lags behind.
func (s *succession) losesGrant(query string) {
	s.Helper()
	a, cut := s.client(time.Minute, query)
	b, _ := s.client(time.Minute, query)
	s.Must(s.Replicas[0].Lag())
	first := s.Take(a)
	mend := cut()
	s.Must(s.Master.Kill())
	s.promote(0)
	second := s.Take(b)
	s.mustBeRefused(first, second)
	s.mustOverlap(first, second)
	mend()
	s.mustLose(first)
}

// The same where the grant was replicated: the new master knows it.
func TestFailoverAfterReplication(t *testing.T) {
	t.Parallel()
	s := newSuccession(t, 1)
	a, _ := s.client(time.Minute, "")
	b, _ := s.client(time.Minute, "")
	first := s.Take(a)
	acknowledged(t, s.Master, 1)
	s.Must(s.Master.Kill())
	s.promote(0)
	if !s.locked(b) {
		t.Error("the new master does not know of a grant that was replicated")
	}
	s.Release(first)
	second := s.Take(b)
	s.MustExclude(first, second)
}

// The old master lives on with one of its clients, and neither knows that there is a new one. Each side has a holder,
// for as long as it lasts. When the old master follows the new one, its holder learns of it.
func TestSplit(t *testing.T) {
	t.Parallel()
	s := newSuccession(t, 1)
	a, _ := s.client(6*time.Second, "")
	s.Must(s.Replicas[0].Lag())
	first := s.Take(a)
	old := s.Master
	s.promote(0)
	b, _ := s.client(6*time.Second, "")
	second := s.Take(b)
	renewed := first.Until()
	testkit.Await(t, "the old master renews the lease", func() bool { return first.Until().After(renewed) })
	s.mustBeRefused(first, second)
	s.mustOverlap(first, second)
	s.Must(old.Follow(s.Master))
	if !first.EndsIn(testkit.Patience) {
		t.Error("the old master is a replica now, and its holder still believes")
	}
}

// With WaitReplicas the old master's holder is not renewed: its replicas have left it. And the new master knows the
// grant, so that no other client is let in before that lease is over.
func TestSplitWithWaitReplicas(t *testing.T) {
	t.Parallel()
	s := newSuccession(t, 1)
	const query = "?wait-replicas=1&wait-timeout=100ms"
	a, _ := s.client(6*time.Second, query)
	first := s.Take(a)
	old := s.Master
	s.promote(0)
	b, _ := s.client(6*time.Second, "")
	if !s.locked(b) {
		t.Error("the new master does not know of a grant that counted")
	}
	second := s.Take(b)
	s.MustExclude(first, second)
	if err := first.Err(); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("the lease of a client in the split: %v, want %v", err, holdfast.ErrLost)
	}
	s.Must(old.Follow(s.Master))
}

// WaitReplicas(1), and the one of two that lags is promoted by force: the grant counted, and is lost. So n must be the
// number of all that may be promoted.
func TestWaitForTooFewReplicas(t *testing.T) {
	t.Parallel()
	newSuccession(t, 2).losesGrant("?wait-replicas=1")
}

// With WaitReplicas(2) on two replicas, whichever is promoted knows of every grant that counted, also the one that
// lags. What it does not know was no grant.
func TestWaitReplicasThroughFailovers(t *testing.T) {
	t.Parallel()
	const failovers, part = 50, 25
	for first := 0; first < failovers; first += part {
		t.Run(fmt.Sprintf("from %d", first), func(t *testing.T) {
			t.Parallel()
			newSuccession(t, 2).failOver(first, first+part)
		})
	}
}

// failOver is the failovers of TestWaitReplicasThroughFailovers from one to another.
func (s *succession) failOver(from, to int) {
	s.Helper()
	const query = "?wait-replicas=2&wait-timeout=200ms"
	a, _ := s.client(time.Minute, query)
	b, _ := s.client(time.Minute, query)
	var all []*testkit.Hold
	take := func(locks *holdfast.Client) *testkit.Hold {
		var held *testkit.Hold
		testkit.Await(s, "a grant counts", func() bool { // a first call on a connection that has just died is an error
			var err error
			held, err = s.TryTake(s.Context(), locks)
			return err == nil
		})
		all = append(all, held)
		return held
	}
	fail := func(i int) {
		s.Must(s.Master.Kill())
		s.promote(i)
	}
	for i := from; i < to; i++ {
		next := i % 2
		switch i % 5 {
		case 3: // a grant that the one does not have who is promoted
			s.Must(s.Replicas[next].Lag())
			ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
			lease, err := a.Mutex(witnessed).Lock(ctx)
			cancel()
			if err == nil {
				s.Fatalf("granted with token %v while a replica lags", lease.Token())
			}
			fail(next)
		case 4: // one that it has, and then it lags
			held := take(a)
			s.Must(s.Replicas[next].Lag())
			fail(next)
			if !s.locked(b) {
				s.Errorf("failover %d lost a grant", i)
			}
			s.Release(held)
		default:
			held := take(a)
			fail(next)
			if !s.locked(b) {
				s.Errorf("failover %d lost a grant", i)
			}
			s.Release(held)
		}
		s.rejoin(next)
		s.Release(take(b))
	}
	s.MustExclude(all...)
}

// A master that was replaced and never heard of it is the master again, with less than its successor had given out. It
// is the same run of the server, but not the same reign.
func TestTicketsRiseWhenOldMasterIsBack(t *testing.T) {
	t.Parallel()
	r := servers.RedisReplicas(t, 1)
	acknowledged(t, r.Master, 1)
	old, successor := r.Master, r.Replicas[0]
	draw := func(at *servers.RedisServer) uint64 {
		s := openAt(t, "redis://"+at.Addr())
		defer s.Close()
		c := testkit.Held(t, s, claim("run"))
		testkit.Leave(t, s, c)
		return c.Ticket
	}
	first := draw(old)
	acknowledged(t, old, 1) // also that it was released
	testkit.Must(t, r.Promote(0))
	second := draw(successor)
	testkit.Must(t, successor.Kill())
	// Demoted, and promoted.
	for _, args := range [][]string{{"REPLICAOF", "127.0.0.1", "1"}, {"REPLICAOF", "NO", "ONE"}} {
		do(t, old, args...)
	}
	if third := draw(old); third <= second {
		t.Errorf("tickets: %d, %d by its successor, then %d", first, second, third)
	}
}

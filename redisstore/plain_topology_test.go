package redisstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// Plain mode follows a failover. What is held is still held by the new master, who waits is woken, and tokens rise.
func TestPlainBySentinel(t *testing.T) {
	t.Parallel()
	watched := servers.RedisSentinel(t, calm)
	open := func() *holdfast.Client {
		locks, err := holdfast.Open(t.Context(), sentinelURL(watched)+"?mode=plain&ttl="+long.String()+never)
		testkit.Must(t, err)
		t.Cleanup(func() { locks.Close() })
		return locks
	}
	holder, other := open(), open()
	lease := testkit.Lock(t, holder, "followed")
	got := locking(t, other, "followed")
	master, err := watched.Master()
	testkit.Must(t, err)
	waitsFor(t, master, "followed")
	acknowledged(t, master, 2)
	failover(t, watched)
	if master, err = watched.Master(); err != nil {
		t.Fatal(err)
	}
	waitsFor(t, master, "followed")
	if err := lease.Err(); err != nil {
		t.Errorf("the lease was lost by a failover that lost nothing: %v", err)
	}
	testkit.Unlock(t, lease)
	next := woken(t, got)
	if next.Token() <= lease.Token() {
		t.Errorf("token %v after %v", next.Token(), lease.Token())
	}
	testkit.Unlock(t, next)
}

// With replicas to be waited for, a grant that they have not acknowledged does not count, and is taken back. Nor does a
// renewal count.
func TestPlainWaitsForReplicas(t *testing.T) {
	t.Parallel()
	fleet := servers.RedisReplicas(t, 1)
	server, replica := fleet.Master, fleet.Replicas[0]
	acknowledged(t, server, 1)
	s := openPlain(t, server, "&wait-replicas=1&wait-timeout=2s")
	c, late := claim("replicated"), claim("late")
	testkit.Join(t, s, &c, store.Held)
	testkit.Must(t, replica.Lag())
	if _, err := s.Join(t.Context(), late); err == nil || store.Final(err) ||
		!strings.Contains(err.Error(), "0 of 1 replicas") {
		t.Errorf("a grant that no replica has: %v", err)
	}
	testkit.Leave(t, s, late)
	if do(t, server, "EXISTS", "late") != "0" {
		t.Error("it was not taken back")
	}
	if _, err := s.Keep(t.Context(), []store.Claim{c}); err == nil ||
		!strings.Contains(err.Error(), "0 of 1 replicas") {
		t.Errorf("a renewal that no replica has: %v", err)
	}
	testkit.Must(t, replica.CatchUp())
	testkit.Await(t, "it is held when the replica is back", func() bool { return testkit.Holds(t.Context(), s, c) })
}

// In a cluster a key's own name says where it lies, and plain mode has nothing beside it there yet.
func TestPlainNotInCluster(t *testing.T) {
	began := time.Now()
	_, err := store.Open(t.Context(), testkit.Locate(t, "redis+cluster://127.0.0.1:1?mode=plain"))
	if !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "mode=queue") ||
		time.Since(began) > testkit.Patience {
		t.Errorf("%v, want at once that mode=queue can do it", err)
	}
}

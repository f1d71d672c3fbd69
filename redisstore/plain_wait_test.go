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
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// never is a retry that no test lives to see: whoever is granted was woken.
const never = "&retry=1h"

// long is the ttl of locks, and soon bounds what a push brings about. The keeper by itself asks after a third of the
// ttl.
const long, soon = 3 * time.Minute, testkit.Patience

// woken waits for a lease that a push brings.
func woken(t *testing.T, got <-chan *holdfast.Lease) *holdfast.Lease {
	t.Helper()
	select {
	case lease := <-got:
		return lease
	case <-time.After(soon):
		t.Fatalf("nobody was woken within %v", soon)
		return nil
	}
}

// waitsFor waits until somebody listens for the release of a name.
func waitsFor(t *testing.T, server *servers.RedisServer, name string) {
	t.Helper()
	testkit.Await(t, "somebody waits for "+name, func() bool {
		return strings.HasSuffix(do(t, server, "PUBSUB", "NUMSUB", "holdfast:{}:push:freed:"+name), " 1]")
	})
}

// A release wakes those who wait, of this process and of others, and so does Break.
func TestPlainReleaseWakes(t *testing.T) {
	server := servers.Redis(t)
	holder, other := openLocks(t, server, never), openLocks(t, server, never)
	lease := testkit.Lock(t, holder, "pushed")
	got := locking(t, other, "pushed")
	waitsFor(t, server, "pushed")
	testkit.Unlock(t, lease)
	lease = woken(t, got)

	got = locking(t, holder, "pushed")
	testkit.Await(t, "both listen", func() bool {
		return strings.HasSuffix(do(t, server, "PUBSUB", "NUMSUB", "holdfast:{}:push:freed:pushed"), " 2]")
	})
	if err := holder.Break(t.Context(), "pushed", lease.Token()+1<<8); !errors.Is(err, holdfast.ErrNotHeld) {
		t.Errorf("Break of a token that nobody has: %v", err)
	}
	testkit.Must(t, holder.Break(t.Context(), "pushed", lease.Token()))
	testkit.Unlock(t, woken(t, got))
	if err := holder.Break(t.Context(), "pushed", lease.Token()); !errors.Is(err, holdfast.ErrNotHeld) {
		t.Errorf("Break of a lock that nobody holds: %v", err)
	}
}

// The control of the test above: a release that is not told wakes nobody.
func TestPlainSilentReleaseWakesNobody(t *testing.T) {
	server := servers.Redis(t)
	locks := openLocks(t, server, never)
	// From now on the server has seen the script, and a try is one call.
	testkit.Unlock(t, testkit.Lock(t, locks, "known"))
	do(t, server, "SET", "silent", "another's")
	before := calls(t, server, "evalsha")
	got := locking(t, locks, "silent")
	waitsFor(t, server, "silent")
	testkit.Await(t, "who waits has tried once more, for what it may have missed",
		func() bool { return calls(t, server, "evalsha") == before+2 })
	before += 2
	do(t, server, "DEL", "silent")
	select {
	case <-got:
		if calls(t, server, "evalsha") == before {
			t.Fatal("it was granted without a call")
		}
		t.Error("it was granted though nobody told it")
	case <-time.After(300 * time.Millisecond):
	}
	do(t, server, "PUBLISH", "holdfast:{}:push:freed:silent", "")
	testkit.Unlock(t, woken(t, got))
}

// A release while the connection for pushes is down is not missed, and after that pushes come as before.
func TestPlainWakesAfterReconnect(t *testing.T) {
	server := servers.Redis(t)
	holder, other := openLocks(t, server, never), openLocks(t, server, never)
	for _, back := range []bool{false, true} {
		lease := testkit.Lock(t, holder, "cut")
		got := locking(t, other, "cut")
		waitsFor(t, server, "cut")
		do(t, server, "CLIENT", "KILL", "TYPE", "pubsub")
		if back {
			waitsFor(t, server, "cut")
			time.Sleep(50 * time.Millisecond) // what everyone is asked for after a reconnect is over
		}
		testkit.Unlock(t, lease)
		testkit.Unlock(t, woken(t, got))
	}
}

// Channels are left when many are idle. A process that waits for a name now and then does not collect them.
func TestPlainChannelsAreLeft(t *testing.T) {
	server := servers.Redis(t)
	s := openPlain(t, server, never)
	s.Notify(func(store.ID, store.Status) {})
	channels := func() int {
		return strings.Count(do(t, server, "PUBSUB", "CHANNELS", "holdfast:{}:push:freed:*"), "freed:")
	}
	var waiters []store.Claim
	for i := range 200 {
		c := claim(fmt.Sprint("many ", i))
		do(t, server, "SET", c.Name, "another's")
		testkit.Join(t, s, &c, store.Waiting)
		waiters = append(waiters, c)
	}
	testkit.Await(t, "all are listened for", func() bool { return channels() == len(waiters) })
	for _, c := range waiters {
		testkit.Leave(t, s, c)
	}
	testkit.Await(t, "most are left", func() bool { return channels() <= 64 })
}

// Goroutines of several clients take turns at a lock. All must get through, one at a time, with rising tokens.
func TestPlainContention(t *testing.T) {
	server := servers.Redis(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*testkit.Patience)
	defer cancel()
	var turns testkit.Turns
	var workers sync.WaitGroup
	for _, option := range []holdfast.Option{holdfast.WithHandOver(0, 0), holdfast.WithWait(time.Minute),
		holdfast.WithTTL(5 * time.Second)} {
		locks := openLocks(t, server, "", option)
		for range 4 {
			workers.Go(func() {
				for range 25 {
					err := locks.Mutex("contended").Do(ctx, turns.Take)
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	workers.Wait()
}

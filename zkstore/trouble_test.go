package zkstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/zkstore"
)

// Without a majority nothing is granted, and no call says that another holds the lock. Two of three servers are killed
// or stopped, and come back.
func TestNoMajority(t *testing.T) {
	t.Parallel()
	type change = func(*servers.ZooKeeperServer) error
	for name, test := range map[string]struct{ lose, mend change }{
		"killed": {
			func(z *servers.ZooKeeperServer) error { return z.Kill() },
			func(z *servers.ZooKeeperServer) error { return z.Start() },
		},
		"paused": {
			func(z *servers.ZooKeeperServer) error { return z.Pause() },
			func(z *servers.ZooKeeperServer) error { return z.Continue() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ensemble := servers.ZooKeeperEnsemble(t, 3)
			url := "zk://" + strings.Join(ensemble.Endpoints(), ",") + "?tick=200ms&ttl=30s"
			s := openURL(t, url)
			held := testkit.Held(t, s, claimOf("held"))
			each := func(do change) {
				for _, node := range ensemble.Nodes[1:] {
					testkit.Must(t, do(node))
				}
			}
			each(test.lose)
			testkit.Await(t, "the one that is left knows that it has no majority", func() bool {
				mode, err := ensemble.Nodes[0].Mode(t.Context())
				return err != nil || mode == ""
			})
			checkFault(t, testkit.OpenError(t, url), false, "no majority")
			helpless(t, s, held)
			each(test.mend)
			for _, node := range ensemble.Nodes {
				testkit.Must(t, node.AwaitHealthy())
			}
			testkit.Await(t, "it works again", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				return testkit.Calls(s, held)["Line"](ctx) == nil
			})
			testkit.Keep(t, s, held, store.Held)
			testkit.CheckWorks(t, s)
		})
	}
}

// helpless demands that no call of a store without servers does anything, nor takes long.
func helpless(t *testing.T, s *zkstore.Store, held store.Claim) {
	t.Helper()
	calls := testkit.Calls(s, claimOf("unlucky"))
	calls["Keep of what is held"] = testkit.Calls(s, held)["Keep"]
	for name, call := range calls {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		began := time.Now()
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			checkFault(t, err, false)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%s took %v", name, took)
		}
		cancel()
	}
	bounded := claimOf("unlucky")
	bounded.Try, bounded.TTL = true, 200*time.Millisecond
	_, err := s.Join(t.Context(), bounded)
	checkFault(t, err, false)
}

// A server that takes every request and never responds. Calls end with their context or with the claim's ttl, and Close
// ends too.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	server := servers.ZooKeeper(t)
	way := testkit.Proxy(t, server.Addr())
	s := openURL(t, "zk://"+way.Addr()+"?tick=200ms&ttl=30s")
	c := testkit.Held(t, s, testkit.Claim("silent", 200*time.Millisecond))
	way.Silence(proxy.Down)
	for name, call := range testkit.Calls(s, c) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		began := time.Now()
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want %v", name, err, context.DeadlineExceeded)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%s took %v", name, took)
		}
		cancel()
	}
	for _, name := range []string{"Join", "Keep", "Leave"} {
		began := time.Now()
		checkFault(t, testkit.Calls(s, c)[name](context.Background()), false)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s took %v, and the ttl is %v", name, took, c.TTL)
		}
	}
	began := time.Now()
	s.Close()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
}

func TestClosedStore(t *testing.T) {
	t.Parallel()
	s := openURL(t, "zk://"+servers.ZooKeeper(t).Addr()+shortTicks)
	held := testkit.Held(t, s, claimOf("held"))
	for range 2 {
		testkit.Check(t, s.Close())
	}
	for name, call := range testkit.Calls(s, held) {
		if err := call(t.Context()); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s of a store that was closed: %v", name, err)
		}
	}
}

// Close ends the session, so that what was held is free at once, and nothing is left but what all sessions share.
func TestCloseLeavesNothing(t *testing.T) {
	t.Parallel()
	server := servers.ZooKeeper(t)
	url := "zk://" + server.Addr() + "?tick=200ms&ttl=30s"
	s, other := openURL(t, url), openURL(t, url)
	testkit.Held(t, s, claimOf("held"))
	waiter := testkit.Waiting(t, other, claimOf("held"))
	testkit.Must(t, s.Close())
	testkit.AwaitHeld(t, other, waiter)
	testkit.Must(t, other.Close())
	conn := dial(t, server.Addr(), "")
	testkit.Await(t, "lines and sessions are gone", func() bool {
		sessions, _, err := conn.Children("/holdfast/session")
		testkit.Must(t, err)
		lines, _, err := conn.Children("/holdfast/line")
		testkit.Must(t, err)
		return len(sessions)+len(lines) == 0
	})
}

// An error of a server that can't be reached is never taken for a lock that is held.
func TestUnreachableIsNotLocked(t *testing.T) {
	t.Parallel()
	server := servers.ZooKeeper(t)
	locks := holdfast.New(openURL(t, "zk://"+server.Addr()+"?tick=200ms&ttl=30s"))
	defer locks.Close()
	testkit.Must(t, server.Kill())
	if _, err := locks.Mutex("free").TryLock(t.Context()); err == nil || errors.Is(err, holdfast.ErrLocked) {
		t.Errorf("TryLock without a server: %v", err)
	}
}

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
			testkit.CheckHelpless(t, s, held, "zookeeper at 127.0.0.1:")
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

// A server that takes every request and never responds. Calls end with their context or with the claim's ttl, and Close
// ends too.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	server := servers.ZooKeeper(t)
	way := testkit.Proxy(t, server.Addr())
	s := openURL(t, "zk://"+way.Addr()+"?tick=200ms&ttl=30s")
	c := testkit.Held(t, s, testkit.Claim("silent", 200*time.Millisecond))
	way.Silence(proxy.Down)
	testkit.CheckSilent(t, s, c, "zookeeper at 127.0.0.1:")
}

func TestClosedStore(t *testing.T) {
	t.Parallel()
	s := openURL(t, "zk://"+servers.ZooKeeper(t).Addr()+shortTicks)
	testkit.CheckClosed(t, s, testkit.Held(t, s, claimOf("held")))
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

package redisstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// keeperOf is the node that keeps a name.
func keeperOf(t testing.TB, c *servers.RedisClusterServers, name string) *servers.RedisServer {
	t.Helper()
	n, err := c.MasterOf(redisstore.KeysOf("", name)[0])
	testkit.Must(t, err)
	return n
}

// Replicas are waited for where the slot is now: the old master refuses the WAIT and the command, and what it says of
// the command tells where to go.
func TestWaitReplicasFollowsFailover(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t)
	s := openAt(t, clusterURL(c)+"?wait-replicas=1&wait-timeout=10s")
	holder := testkit.Held(t, s, claim("acked"))
	testkit.Must(t, giveWay(c, []*servers.RedisServer{keeperOf(t, c, holder.Name)}))
	testkit.Await(t, "the new master renews", func() bool { return testkit.Holds(t.Context(), s, holder) })
}

// A client stays connected to a node that is demoted, lags, and is promoted again with less than it had to know: with
// the first ticket of the other's reign, or with none. Its next ticket is above those that it never heard of.
func TestTicketsRiseOnIdleConnection(t *testing.T) {
	t.Parallel()
	for name, seen := range map[string]bool{"a reign that it saw begin": true, "an unseen reign": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testIdleConnection(t, seen)
		})
	}
}

func testIdleConnection(t *testing.T, seen bool) {
	c := servers.RedisCluster(t)
	a, b := openAt(t, clusterURL(c)), openAt(t, clusterURL(c))
	const name = "fall"
	take := func(s *redisstore.Store) store.Claim {
		own := testkit.Held(t, s, claim(name))
		testkit.Leave(t, s, own)
		return own
	}
	take(a)
	old := keeperOf(t, c, name)
	testkit.Must(t, giveWay(c, []*servers.RedisServer{old}))
	next := keeperOf(t, c, name)
	if next == old {
		t.Fatal("the same node keeps it")
	}
	if seen {
		take(b)
	}
	replicated(t, next)
	testkit.Must(t, old.Lag())
	var lost store.Claim
	for range 5 {
		lost = take(b)
	}
	failOver(t, c, next)
	testkit.Must(t, old.CatchUp())
	var again store.Status
	testkit.Await(t, "the old one serves again", func() bool {
		var err error
		again, err = a.Join(t.Context(), claim(name))
		return err == nil
	})
	if again.Ticket <= lost.Ticket {
		t.Errorf("ticket %d after %d", again.Ticket, lost.Ticket)
	}
}

// A node and its replica are down for a while. The store finds it again when it is back, by the client that it was
// given.
func TestNewInClusterNodeIsBack(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t)
	down := c.Nodes[0]
	client := handIn(t, c.Addrs()[1:2]...)
	s := newOf(t, client)
	var name string
	for _, name = range spreadNames(t, c) {
		if keeperOf(t, c, name) == down {
			break
		}
	}
	first := testkit.Held(t, s, claim(name))
	replica, err := c.ReplicaOf(down)
	testkit.Must(t, err)
	for _, n := range []*servers.RedisServer{replica, down} {
		testkit.Must(t, n.Kill())
	}
	if _, err := s.Keep(t.Context(), []store.Claim{first}); err == nil {
		t.Error("it is kept where nobody is")
	}
	testkit.Must(t, down.Start())
	testkit.Await(t, "the store has it again", func() bool {
		_, err := s.Join(t.Context(), claim(name))
		return err == nil
	})
}

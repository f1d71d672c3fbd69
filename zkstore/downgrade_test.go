package zkstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/zkstore"
)

// A claim is made smaller, the response to that is lost, and the claim leaves: nothing of it stays in the queue.
func TestLostDowngradeLeavesNothing(t *testing.T) {
	t.Parallel()
	server := servers.ZooKeeper(t)
	ways := testkit.NewWays(t, []string{server.Addr()})
	const ttl = 4 * time.Second // a busy machine must not have the store leave its server
	s := openURL(t, fmt.Sprintf("zk://%s?tick=200ms&ttl=%v", ways.Addrs()[0], ttl))
	c := testkit.Claim("mine", ttl)
	c.Demand = store.Demand{Kind: store.Semaphore, Units: 3, Limit: 3}
	held := testkit.Held(t, s, c)
	direct := dial(t, server.Addr(), "")
	nodes := func() int {
		children, _, err := direct.Children(zkstore.LinePath("", "", "mine"))
		testkit.Must(t, err)
		return len(children)
	}
	ctx, cancel := context.WithCancel(t.Context())
	release := ways.Hold(proxy.Down)
	smaller := held
	smaller.Units = 1
	var keeping sync.WaitGroup
	keeping.Go(func() {
		if _, err := s.Keep(ctx, []store.Claim{smaller}); err == nil {
			t.Error("the response was not lost")
		}
	})
	testkit.Await(t, "it is smaller", func() bool { return nodes() == 2 })
	cancel()
	keeping.Wait()
	release()
	testkit.Must(t, s.Leave(t.Context(), held))
	if n := nodes(); n != 0 {
		t.Errorf("%d nodes are left", n)
	}
}

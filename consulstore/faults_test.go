package consulstore_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/consulstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/contend"
)

// believerScheme is that of a store that is broken: see testkit.Believer.
const believerScheme = "consul+believer"

// This binary is also the program of the processes that contend, and of those that hold a lock until something happens
// to them.
func init() {
	testkit.RegisterBroken(believerScheme, "consul", testkit.Believer)
	contend.Child()
	testkit.HolderChild(nil)
}

const (
	// longTTL, lastingTTL and soon are those of testkit.Cluster.
	longTTL    = 30 * time.Second
	lastingTTL = 2 * sessionTTL
	soon       = testkit.SoonAfter
)

// clusterOf returns servers as the scenes of testkit know them. Consul ends a session after twice its ttl.
func clusterOf(c *servers.ConsulServers) *testkit.Cluster {
	return &testkit.Cluster{
		Scheme: "consul", Believer: believerScheme,
		SessionTTL: sessionTTL, LastingTTL: lastingTTL, LongTTL: longTTL, Expiry: sessionTTL * 5 / 2,
		Endpoints: c.Endpoints(), Nodes: testkit.Nodes(c.Nodes),
		Leader: func() (testkit.Node, error) { return c.Leader() },
		URL:    storeURL,
		Queue: func(t testing.TB, name string) (keys []string) {
			for _, k := range keysUnder(t, c.Nodes[0], consulstore.LineOf(name)) {
				keys = append(keys, k.Key)
			}
			return keys
		},
		Left:    func(t testing.TB) []string { return leftIn(t, c) },
		Restart: c.Restart,
		Delete:  func(t testing.TB, key string) { deleteKey(t, c, key) },
	}
}

// storeURL returns the URL of a store.
func storeURL(scheme string, ttl time.Duration, addrs ...string) string {
	return fmt.Sprintf("%s://%s?ttl=%v", scheme, strings.Join(addrs, ","), ttl)
}

// Errors of servers that are down, and of servers that are slow: on a busy machine that needs no fault.
var (
	isFailing = regexp.MustCompile("cannot be reached|EOF|reset by peer|leader|consistent reads|rpc error|raft|" +
		"deadline reached|No known Consul servers|shutdown")
	isSlow = regexp.MustCompile("no response|changes too fast|not sure")
)

// Faults strike while a crowd contends: the servers, and in another scene connections and one process.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string][]testkit.Fault{
		"of servers":                   testkit.ServerFaults,
		"of connections and a process": testkit.ClientFaults,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clusterOf(newCluster(t, 3)).TestFaults(t, isFailing, isSlow, faults)
		})
	}
}

// A store that is broken meets the silence, and the checkers see it.
func TestFaultsAreSeen(t *testing.T) {
	t.Parallel()
	clusterOf(newCluster(t, 1)).TestFaultsAreSeen(t)
}

package zkstore_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/contend"
	"github.com/holdfast-go/holdfast/zkstore"
)

// believerScheme is that of a store that is broken: see testkit.Believer.
const believerScheme = "zk+believer"

// This binary is also the program of the processes that contend, and of those that hold a lock until something happens
// to them.
func init() {
	testkit.RegisterBroken(believerScheme, "zk", testkit.Believer)
	contend.Child()
	testkit.HolderChild(nil)
}

const (
	// longTTL, lastingTTL and soon are those of testkit.Cluster.
	longTTL    = 30 * time.Second
	lastingTTL = 3 * sessionTTL
	soon       = testkit.SoonAfter
)

// clusterOf returns servers as the scenes of testkit know them. What they read is read from a server that connect
// connects to. A leader rounds the timeout of a session up to its tick.
func clusterOf(e *servers.ZooKeeperServers, connect func() *zk.Conn) *testkit.Cluster {
	conn := sync.OnceValue(connect)
	return &testkit.Cluster{
		Scheme: "zk", Believer: believerScheme,
		SessionTTL: sessionTTL, LastingTTL: lastingTTL, LongTTL: longTTL, Expiry: sessionTTL * 3 / 2,
		Endpoints: e.Endpoints(), Nodes: testkit.Nodes(e.Nodes),
		Leader: func() (testkit.Node, error) { return e.Leader() },
		URL:    storeURL,
		Queue: func(t testing.TB, name string) []string {
			return childrenOf(t, conn(), zkstore.LinePath("", "", name))
		},
		Left:    func(t testing.TB) []string { return leftIn(t, e) },
		Restart: e.Restart,
		Delete:  func(t testing.TB, path string) { testkit.Must(t, conn().Delete(path, -1)) },
	}
}

// storeURL returns the URL of a store whose servers have the tests' tick.
func storeURL(scheme string, ttl time.Duration, addrs ...string) string {
	return fmt.Sprintf("%s://%s?ttl=%v&tick=%v", scheme, strings.Join(addrs, ","), ttl, tick)
}

// Errors of servers that are down, and of servers that are slow: on a busy machine that needs no fault.
var (
	isFailing = regexp.MustCompile("connection was closed|connection refused|no majority|reset by peer|EOF")
	isSlow    = regexp.MustCompile("no response in|no connection|changes too fast|i/o timeout")
)

// Faults strike while a crowd contends: the servers, and in another scene connections and one process.
func TestFaults(t *testing.T) {
	t.Parallel()
	t.Run("of servers", func(t *testing.T) {
		t.Parallel()
		e := newEnsemble(t, tick)
		lostData := testkit.Fault{
			Name:   "data of one server lost",
			Strike: func(s *testkit.CrowdScene) { loseData(s, e) },
		}
		faults := slices.Concat([]testkit.Fault{lostData}, testkit.ServerFaults)
		clusterOf(e, nil).TestFaults(t, isFailing, isSlow, faults)
	})
	t.Run("of connections and a process", func(t *testing.T) {
		t.Parallel()
		e := newEnsemble(t, tick, servers.Cuttable())
		isolated := testkit.Fault{
			Name: "follower cut off from the others", Strike: func(s *testkit.CrowdScene) { isolateFollower(s, e) },
		}
		faults := slices.Concat([]testkit.Fault{isolated}, testkit.ClientFaults)
		clusterOf(e, nil).TestFaults(t, isFailing, isSlow, faults)
	})
}

// A store that is broken meets the silence, and the checkers see it.
func TestFaultsAreSeen(t *testing.T) {
	t.Parallel()
	clusterOf(newEnsemble(t, tick), nil).TestFaultsAreSeen(t)
}

// isolateFollower cuts a follower off from the others for longer than the ttl. Its clients stay connected with it, and
// acquire locks all the same, from the others.
func isolateFollower(s *testkit.CrowdScene, e *servers.ZooKeeperServers) {
	s.Helper()
	node := follower(s, e)
	s.Must(node.Isolate())
	rejoin := time.After(s.Cluster.Expiry)
	s.Through()
	<-rejoin
	node.Rejoin()
	s.Must(node.AwaitHealthy())
}

// loseData kills a follower, and starts it again without its snapshots and logs.
func loseData(s *testkit.CrowdScene, e *servers.ZooKeeperServers) {
	s.Helper()
	node := follower(s, e)
	s.Must(node.Restart(false))
	s.Must(node.AwaitHealthy())
}

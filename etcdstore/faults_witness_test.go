package etcdstore_test

import (
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// clusterOf returns servers as the scenes of testkit know them. What these read is read by a client past all proxies.
func clusterOf(c *servers.EtcdServers, client *clientv3.Client) *testkit.Cluster {
	return &testkit.Cluster{
		Scheme: "etcd", Believer: believerScheme,
		SessionTTL: sessionTTL, LastingTTL: lastingTTL, LongTTL: longTTL, Expiry: longerThanTTL,
		Endpoints: c.Endpoints(), Nodes: testkit.Nodes(c.Nodes),
		Leader: func() (testkit.Node, error) { return c.Leader() },
		URL:    storeURL,
		Queue:  func(t testing.TB, name string) []string { return queueOf(t, client, name) },
	}
}

// queueOf returns the keys of the claims in a queue, as etcd has them.
func queueOf(t testing.TB, client *clientv3.Client, name string) (keys []string) {
	t.Helper()
	ctx, cancel := patience()
	defer cancel()
	response, err := client.Get(ctx, etcdstore.LineKey(name), clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	testkit.Must(t, err)
	for _, kv := range response.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

// A witness is the journal of one lock in a cluster.
type witness struct {
	*testkit.Witness
	cluster *servers.EtcdServers
	client  *clientv3.Client // past all proxies
}

// newWitness returns the journal of a lock that is named after the test.
func newWitness(t *testing.T, cluster *servers.EtcdServers) *witness {
	t.Helper()
	client := cluster.Client(t)
	return &witness{clusterOf(cluster, client).NewWitness(t), cluster, client}
}

// openThrough opens a client with options of its connections.
func (w *witness) openThrough(endpoints []string, ttl time.Duration, options ...grpc.DialOption) *holdfast.Client {
	w.Helper()
	s, err := etcdstore.OpenThrough(w.Context(), w.cluster.Endpoints(), endpoints, "", ttl, options...)
	w.Must(err)
	return w.Add(holdfast.New(s))
}

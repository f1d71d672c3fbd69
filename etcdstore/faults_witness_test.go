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

// A witness is a journal of one lock in a cluster.
type witness struct {
	*testkit.Journal
	cluster *servers.EtcdServers
	client  *clientv3.Client // past all proxies
}

// newWitness is for a lock that has the test's name.
func newWitness(t *testing.T, cluster *servers.EtcdServers) *witness {
	t.Helper()
	return &witness{testkit.NewJournal(t, testkit.Evidence(t), t.Name()), cluster, cluster.Client(t)}
}

// open opens a client by URL, with a session that lasts for ttl.
func (w *witness) open(scheme string, endpoints []string, ttl time.Duration) *holdfast.Client {
	w.Helper()
	return w.Open(storeURL(scheme, endpoints, ttl))
}

// openThrough opens a client with options of its connections.
func (w *witness) openThrough(endpoints []string, ttl time.Duration, options ...grpc.DialOption) *holdfast.Client {
	w.Helper()
	s, err := etcdstore.OpenThrough(w.Context(), w.cluster.Endpoints(), endpoints, "", ttl, options...)
	w.Must(err)
	return w.Add(holdfast.New(s))
}

// wait has a client wait for the lock, behind so many.
func (w *witness) wait(locks *holdfast.Client, behind int) *testkit.Waiter {
	w.Helper()
	next := w.Wait(locks)
	testkit.Await(w, "it waits in the line", func() bool { return len(w.line()) == behind+1 })
	return next
}

// line is the claims in the lock's line, as etcd has them.
func (w *witness) line() (keys []string) {
	w.Helper()
	ctx, cancel := patience()
	defer cancel()
	answer, err := w.client.Get(ctx, etcdstore.LineKey(w.Mutex), clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	w.Must(err)
	for _, kv := range answer.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

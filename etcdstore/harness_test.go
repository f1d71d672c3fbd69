package etcdstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		server := servers.Etcd(t)
		return &harness{
			client:    server.Client(t),
			endpoints: []string{server.Addr()},
			restart:   server.Restart,
		}
	})
}

func TestStoreOnThree(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		cluster := servers.EtcdCluster(t, 3)
		return &harness{
			client:    cluster.Client(t),
			endpoints: cluster.Endpoints(),
			restart:   cluster.Restart,
		}
	})
}

// A harness is an etcd with a hand on its switches.
type harness struct {
	client    *clientv3.Client // past the proxies
	endpoints []string
	restart   func(keepData bool) error
}

// sessionTTL is the shortest that etcd grants.
const sessionTTL = time.Second

func (h *harness) Open(t testing.TB, prefix string) (store.Store, storetest.Link) {
	t.Helper()
	ways := testkit.NewWays(t, h.endpoints)
	l := &link{ways.Links(), newValve()}
	s, err := etcdstore.OpenThrough(t.Context(), h.endpoints, ways.Addrs(), prefix, sessionTTL,
		grpc.WithChainStreamInterceptor(l.intercept))
	testkit.Must(t, err)
	return s, l
}

func (h *harness) Advance(d time.Duration) { time.Sleep(d) }

func (h *harness) Restart(keepData bool) error { return h.restart(keepData) }

// Erase deletes the key whose value has the ID.
func (h *harness) Erase(name string, id store.ID) error {
	ctx, cancel := patience()
	defer cancel()
	line, err := h.client.Get(ctx, etcdstore.LineKey(name), clientv3.WithPrefix())
	if err != nil {
		return err
	}
	for _, kv := range line.Kvs {
		if in, err := etcdstore.IDIn(kv.Value); err != nil || in == id {
			_, err = h.client.Delete(ctx, string(kv.Key))
			return err
		}
	}
	return fmt.Errorf("no key of %q has the ID %v", name, id)
}

func (h *harness) Residue(name string) (int, error) {
	ctx, cancel := patience()
	defer cancel()
	answer, err := h.client.Get(ctx, etcdstore.LineKey(name), clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return int(answer.Count), nil
}

func (h *harness) PlantNewer(name string) error {
	ctx, cancel := patience()
	defer cancel()
	_, err := h.client.Put(ctx, etcdstore.LineKey(name)+"0000000000000001-0", `2 {"of": "the future"}`)
	return err
}

// serverPatience is how long a server may take to answer, on a busy machine.
const serverPatience = 10 * time.Second

func patience() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), serverPatience)
}

// A link is one client's links to all members, and the valve for what they send by themselves.
type link struct {
	testkit.Links
	*valve
}

func (l *link) HoldPushes() (release func()) { return l.hold() }

func (l *link) DropPushes(on bool) { l.drop(on) }

package zkstore_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
	"github.com/holdfast-go/holdfast/zkstore"
)

// The whole suite on three servers.
func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness {
		ensemble := servers.ZooKeeperEnsemble(t, 3, servers.Tick(tick))
		return &harness{t: t, endpoints: ensemble.Endpoints(), restart: ensemble.Restart}
	})
}

// What differs on one server: it loses its data at once, and has no leader that lags behind.
func TestStoreOnOne(t *testing.T) {
	t.Parallel()
	storetest.RunSome(t, func(t testing.TB) storetest.Harness {
		server := servers.ZooKeeper(t, servers.Tick(tick))
		return &harness{t: t, endpoints: []string{server.Addr()}, restart: server.Restart}
	}, "exclusion", "floor", "truth")
}

// The suite on Curator's nodes for a read-write lock, which has no semaphores; its time and its errors are those of the
// store on its own nodes.
func TestStoreInCuratorsLayout(t *testing.T) {
	t.Parallel()
	storetest.RunSome(t, func(t testing.TB) storetest.Harness {
		server := servers.ZooKeeper(t, servers.Tick(tick))
		return &harness{t: t, endpoints: []string{server.Addr()}, restart: server.Restart, layout: "curator-rw"}
	}, "methods", "exclusion", "order", "identity", "truth", "unknown outcomes", "names")
}

// A harness is ZooKeeper with a hand on its switches.
type harness struct {
	t         testing.TB
	endpoints []string
	restart   func(keepData bool) error
	layout    string // empty: Holdfast's
}

// What the servers of the tests have, and the sessions of the stores.
const (
	tick       = 200 * time.Millisecond
	sessionTTL = 8 * tick
)

func (h *harness) Open(t testing.TB, prefix string) (store.Store, storetest.Link) {
	t.Helper()
	ways := testkit.NewWays(t, h.endpoints)
	l := testkit.ValvedLinks{Links: ways.Links(), Valve: &testkit.Valve{}}
	options := []zkstore.Option{zkstore.WithLayout(h.layout), zkstore.WithTTL(sessionTTL), zkstore.WithTick(tick)}
	if h.layout == "" {
		options = append(options, zkstore.WithPrefix(prefix))
	} else {
		options = append(options, zkstore.WithChroot(h.chroot(prefix)))
	}
	s, err := zkstore.OpenThrough(t.Context(), l.Valve, h.endpoints, ways.Addrs(), options...)
	testkit.Must(t, err)
	return brisk{s}, l
}

// A brisk store promises what holds where no leader has to be found: the suite waits for as long as is promised.
// testKilledHolder has the store's own promise.
type brisk struct{ *zkstore.Store }

// Abilities implements store.Store.
func (b brisk) Abilities() store.Abilities {
	a := b.Store.Abilities()
	a.TakeoverTTLs, a.TakeoverPlus = 1, 2*tick+time.Second // the second is for a busy machine
	return a
}

// chroot makes a node for a prefix where the layout has none, and returns its path.
func (h *harness) chroot(prefix string) string {
	path := "/" + hex.EncodeToString([]byte(prefix))
	if prefix == "" {
		path = curatorRoot
	}
	testkit.Must(h.t, h.makeNode(path))
	return path
}

func (h *harness) makeNode(path string) error {
	return h.do(func(conn *zk.Conn) error {
		_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
		if errors.Is(err, zk.ErrNodeExists) {
			return nil
		}
		return err
	})
}

// curatorRoot is where names are paths, in Curator's layout.
const curatorRoot = "/root"

func (h *harness) linePath(name string) string { return zkstore.LinePath(h.layout, curatorRoot, name) }

func (h *harness) Advance(d time.Duration) { time.Sleep(d) }

// Restart makes again what clients don't: the node that names begin at.
func (h *harness) Restart(keepData bool) error {
	err := h.restart(keepData)
	if err == nil && h.layout != "" {
		err = h.makeNode(curatorRoot)
	}
	return err
}

// do does something past the proxies.
func (h *harness) do(f func(*zk.Conn) error) error {
	conn, events, err := zk.Connect(h.endpoints, 10*time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		return err
	}
	defer func() {
		conn.Close()
		for range events {
		}
	}()
	return f(conn)
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// Erase deletes the node that has the ID.
func (h *harness) Erase(name string, id store.ID) error {
	return h.do(func(conn *zk.Conn) error {
		path := h.linePath(name)
		if _, err := conn.Sync(path); err != nil {
			return err
		}
		children, _, err := conn.Children(path)
		if err != nil {
			return err
		}
		node := zkstore.NodeOf(h.layout, children, id)
		if node == "" {
			return fmt.Errorf("no node of %q has the ID %v", name, id)
		}
		return conn.Delete(path+"/"+node, -1)
	})
}

// Residue counts the queue's node too, which the servers remove.
func (h *harness) Residue(name string) (n int, err error) {
	err = h.do(func(conn *zk.Conn) error {
		path := h.linePath(name)
		if _, err := conn.Sync("/"); err != nil {
			return err
		}
		children, _, err := conn.Children(path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		n = len(children) + 1
		return err
	})
	return n, err
}

// PlantNewer can't be done in Curator's layout, where nodes have no format.
func (h *harness) PlantNewer(name string) error {
	if h.layout != "" {
		return errors.ErrUnsupported
	}
	return h.do(func(conn *zk.Conn) error {
		path := h.linePath(name)
		if _, err := conn.CreateContainer(path, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll)); err != nil {
			return err
		}
		_, err := conn.Create(path+"/2-of-the-future", nil, 0, zk.WorldACL(zk.PermAll))
		return err
	})
}

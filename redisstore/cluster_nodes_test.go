package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// The host of a master is gone, and whoever connects to it hears nothing. Calls that wait for that go on with the new
// master when there is one, and do not wait until the attempt has failed.
func TestClusterHostIsGone(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t)
	names := spreadNames(t, c)
	master := keeperOf(t, c, names[0])
	var gone, missed atomic.Bool
	s := openDetour(t, clusterURL(c), func(address string) string {
		if gone.Load() && address == master.Addr() {
			missed.Store(true)
			select { // a dial into the dark
			case <-t.Context().Done():
			case <-time.After(3 * testkit.Patience):
			}
		}
		return address
	})
	holder, other := testkit.Held(t, s, claim(names[0])), testkit.Held(t, s, claim(names[1]))
	replicated(t, master)
	gone.Store(true)
	testkit.Must(t, master.Kill())
	// Before, the outcome of a call is unknown: an error, and not asked again.
	testkit.Await(t, "its end is noticed", missed.Load)
	kept := make(chan error, 1)
	go func() { // it waits from now on
		standings, err := s.Keep(context.Background(), []store.Claim{holder})
		if err == nil && standings[0].State != store.Held {
			err = fmt.Errorf("it is %v", standings[0].State)
		}
		kept <- err
	}()
	_, err := c.AwaitFailover(master)
	testkit.Must(t, err)
	select {
	case err := <-kept:
		testkit.Check(t, err)
	case <-time.After(testkit.Patience):
		t.Errorf("%v after the failover the call still waits for the old master", testkit.Patience)
	}
	testkit.Keep(t, s, holder, store.Held)
	testkit.Keep(t, s, other, store.Held)
}

// A Join that is refused for good has joined nothing: who cannot be told that he holds now is taken out of the queue.
func TestRefusedJoinIsWithdrawn(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t)
	url := strings.Replace(clusterURL(c), "://", "://me:secret@", 1)
	for _, lacking := range []string{"-ssubscribe", "-spublish", "resetchannels"} {
		for _, n := range c.Nodes {
			do(t, n, "ACL", "SETUSER", "me", "reset", "on", ">secret", "~*", "&*", "+@all", lacking)
		}
		s := openAt(t, url)
		holder := testkit.Held(t, s, claim("untold "+lacking))
		_, err := s.Join(t.Context(), claim(holder.Name))
		checkFault(t, err, true, "lacks a permission")
		if line, err := s.Queue(t.Context(), holder.Name); err != nil || len(line.Entries) != 1 {
			t.Errorf("%s: the line is %+v and %v, want the holder alone", lacking, line.Entries, err)
		}
	}
}

// A forgetful client does not know a node yet.
type forgetful struct {
	rueidis.Client
	unknown string
	learnt  atomic.Bool
	asked   atomic.Int64 // how often it was asked for something itself, from which a real client learns
}

func (f *forgetful) Nodes() map[string]rueidis.Client {
	nodes := f.Client.Nodes()
	if !f.learnt.Load() {
		delete(nodes, f.unknown)
	}
	return nodes
}

func (f *forgetful) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	f.asked.Add(1)
	return f.Client.Do(ctx, command)
}

// A client that the caller provided does not know one of the nodes yet. The others are served, and that one too when
// the client has learnt of it.
func TestNewInClusterUnknownNode(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t)
	names := spreadNames(t, c)
	client := handIn(t, c.Addrs()[:1]...)
	identity, err := c.MasterOf("holdfast:{}:id") // without it there is no store
	testkit.Must(t, err)
	if keeperOf(t, c, names[0]) == identity {
		names[0], names[1] = names[1], names[0]
	}
	known := &forgetful{Client: client, unknown: keeperOf(t, c, names[0]).Addr()}
	s := newOf(t, known)
	for _, name := range names[1:] {
		testkit.Held(t, s, claim(name))
	}
	_, err = s.Join(t.Context(), claim(names[0]))
	checkFault(t, err, false, "does not know", known.unknown)
	if known.asked.Load() == 0 {
		t.Error("the client was not asked for anything from which it could learn")
	}
	known.learnt.Store(true)
	testkit.Await(t, "the node is served that the client has learnt of", func() bool {
		_, err := s.Join(t.Context(), claim(names[0]))
		return err == nil
	})
}

// Nodes are called as the cluster wants them to be called, over TLS by names that their certificates have.
func TestClusterByHostname(t *testing.T) {
	t.Parallel()
	certificates := servers.NewCertificates(t)
	c := servers.RedisCluster(t, servers.TLS(certificates),
		servers.Args("--cluster-announce-hostname", "localhost", "--cluster-preferred-endpoint-type", "hostname"))
	for _, n := range c.Nodes {
		testkit.Await(t, n.Addr()+" knows all names", func() bool {
			return strings.Count(do(t, n, "CLUSTER", "NODES"), ",localhost") == len(c.Nodes)
		})
	}
	var mu sync.Mutex
	called := map[string]bool{}
	seeds := strings.ReplaceAll(strings.Join(c.Addrs(), ","), "127.0.0.1", "localhost")
	s := openDetour(t, "rediss+cluster://"+seeds+"?ca="+certificates.CAFile, func(address string) string {
		host, port, _ := net.SplitHostPort(address)
		mu.Lock()
		called[host] = true
		mu.Unlock()
		return net.JoinHostPort("127.0.0.1", port)
	})
	names := spreadNames(t, c)
	for _, name := range names {
		testkit.Held(t, s, claim(name))
	}
	testkit.Must(t, moveSlot(c, redisstore.KeysOf("", names[0])[0], nil))
	testkit.Waiting(t, s, claim(names[0]))
	mu.Lock()
	defer mu.Unlock()
	if !called["localhost"] || len(called) != 1 {
		t.Errorf("nodes were called %v, and want to be called localhost", called)
	}
}

// Each master is looked at, also one that becomes it later.
func TestEveryMasterIsInspected(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t)
	names := spreadNames(t, c)
	careful := openAt(t, clusterURL(c)+"?eviction=refuse")
	last := c.Nodes[2]
	replica, err := c.ReplicaOf(last)
	testkit.Must(t, err)
	for _, n := range []*servers.RedisServer{last, replica} {
		do(t, n, "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
	}
	checkFault(t, openError(t, clusterURL(c)+"?eviction=refuse"), true, "noeviction", last.Addr())

	var said testkit.Log
	client := handIn(t, c.Addrs()[:1]...)
	newOf(t, client, redisstore.WithLogger(said.Logger())).Close()
	if said.Count("locks may be lost") != 1 || said.Count(last.Addr()) == 0 {
		t.Errorf("want one warning that names %s:\n%s", last.Addr(), said.Take())
	}

	testkit.Must(t, giveWay(c, []*servers.RedisServer{last}))
	for _, name := range names {
		own := claim(name)
		if keeperOf(t, c, name) != replica {
			testkit.Join(t, careful, &own, store.Held)
			continue
		}
		testkit.Await(t, "the new master is refused", func() bool {
			_, err := careful.Join(t.Context(), own)
			return store.Final(err) && strings.Contains(err.Error(), replica.Addr())
		})
	}
}

// A name is not lost because its slot is moved to a master whose names have been given already.
func TestNamesWhileSlotMoves(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t)
	s := openAt(t, clusterURL(c))
	want := map[string]bool{}
	var moving string
	for i := range 60 {
		own := testkit.Held(t, s, claim(fmt.Sprint("name ", i)))
		if want[own.Name] = true; keeperOf(t, c, own.Name) == c.Nodes[2] {
			moving = own.Name
		}
	}
	moved := false
	for name, err := range s.Names(t.Context(), "name ") {
		if err != nil || !want[name] {
			t.Fatalf("%q and %v", name, err)
		}
		delete(want, name)
		if !moved && keeperOf(t, c, name) == c.Nodes[1] { // the first node is done with
			moved = true
			key := redisstore.KeysOf("", moving)[0]
			slot, err := c.KeySlot(key)
			if err == nil {
				err = c.MigrateSlot(slot, c.Nodes[2], c.Nodes[0], nil)
			}
			testkit.Must(t, err)
		}
	}
	if len(want) > 0 || !moved {
		t.Errorf("these names are missing: %v (%q was moved: %t)", want, moving, moved)
	}
}

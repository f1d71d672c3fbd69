package zkstore_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/zkstore"
)

// What the servers are asked for, counted on the way to them, and the same of go-zookeeper's zk.Lock.

const (
	opDelete      = 2
	opGetChildren = 12
	opMulti       = 14
)

// costTTL is the ttl of sessions that renew themselves too seldom to be counted here.
const costTTL = 5 * time.Minute

// openCounted opens a store through a way of its own.
func openCounted(t testing.TB, addr string) (*zkstore.Store, *requests) {
	t.Helper()
	way := countRequests(t, addr, 0)
	return openURL(t, "zk://"+way.addr+"?tick=200ms&ttl="+costTTL.String()), way
}

// A lock that no other client wants costs one request, and its release another. zk.Lock needs one more.
func TestOneRequestEach(t *testing.T) {
	t.Parallel()
	server := servers.ZooKeeper(t)
	s, way := openCounted(t, server.Addr())
	locks := holdfast.New(s, holdfast.WithTTL(costTTL))
	defer locks.Close()
	lockAndUnlock := func() { testkit.Unlock(t, testkit.Lock(t, locks, "inventory:42")) }
	const tooLong = 20 * time.Millisecond // then the lock is watched
	var ours map[int32]int
	testkit.Await(t, "the machine has time for this test", func() bool {
		lockAndUnlock() // makes the queue, which the servers remove soon
		before, began := way.sofar(), time.Now()
		lockAndUnlock()
		took := time.Since(began)
		ours = since(before, way.settled(t))
		return took < tooLong && ours[opCreateContainer] == 0
	})
	if want := map[int32]int{opMulti: 1, opDelete: 1}; !maps.Equal(ours, want) {
		t.Errorf("Lock and Unlock were %v, want %v", ours, want)
	}

	theirWay := countRequests(t, server.Addr(), 0)
	lock := zk.NewLock(dial(t, theirWay.addr, ""), "/theirs", zk.WorldACL(zk.PermAll))
	use := func() {
		testkit.Must(t, lock.Lock())
		testkit.Must(t, lock.Unlock())
	}
	use() // makes its node
	theirs := theirWay.during(t, use)
	t.Logf("Holdfast: %v, zk.Lock: %v", ours, theirs)
	if total(ours) > total(theirs) {
		t.Errorf("Holdfast needs %v, and zk.Lock %v", ours, theirs)
	}
}

// A thousand claims are kept by few requests.
func TestThousandRenewals(t *testing.T) {
	t.Parallel()
	s, way := openCounted(t, servers.ZooKeeper(t).Addr())
	claims := make([]store.Claim, 1000)
	for i := range claims {
		claims[i] = testkit.Held(t, s, testkit.Claim(fmt.Sprint("claim ", i), costTTL))
	}
	cost := way.during(t, func() {
		statuses, err := s.Keep(t.Context(), claims)
		testkit.Must(t, err)
		for i, k := range statuses {
			if k.Err != nil || k.State != store.Held || k.Ticket != claims[i].Ticket {
				t.Fatalf("claim %d: %+v", i, k)
			}
		}
	})
	t.Logf("1,000 claims were kept by %v", cost)
	if n := cost[opMulti]; n < 1 || n > 4 || n != total(cost) {
		t.Errorf("1,000 claims were kept by %v, want one to four transactions", cost)
	}
}

// An owner of many claims begins to wait in many queues, which all its claims say from then on. That is more than
// servers take in one request.
func TestManyRenewalsGrow(t *testing.T) {
	t.Parallel()
	s, _ := openCounted(t, servers.ZooKeeper(t).Addr())
	claims := make([]store.Claim, 300)
	for i := range claims {
		claims[i] = testkit.Held(t, s, testkit.Claim(fmt.Sprint("claim ", i), costTTL))
		for range 20 {
			claims[i].Waits = append(claims[i].Waits, store.Wait{Name: strings.Repeat("n", 250)})
		}
	}
	statuses, err := s.Keep(t.Context(), claims)
	testkit.Must(t, err)
	for i, k := range statuses {
		if k.Err != nil || k.State != store.Held {
			t.Fatalf("claim %d: %+v", i, k)
		}
	}
}

// A release in a queue of 200 waiters costs one request of the holder and one of the waiter after the next, which reads
// the queue to learn that it is the next now. One that has joined behind two knows. The waiter that is granted the lock
// asks for nothing, and neither do the others.
func TestReleaseAmongWaiters(t *testing.T) {
	t.Parallel()
	const waiters = 200
	addr := servers.ZooKeeper(t).Addr()
	var line []counted // each is alone in its store
	for range 4 {
		line = append(line, joinCounted(t, addr))
	}
	others, othersWay := openCounted(t, addr)
	for range waiters + 1 - len(line) {
		testkit.Waiting(t, others, testkit.Claim("wanted", costTTL))
	}
	for i, wantLook := range []map[int32]int{{}, {opGetChildren: 1}} {
		holder, next, second := line[i], line[i+1], line[i+2]
		var released, granted, look map[int32]int
		asked := othersWay.during(t, func() {
			look = second.way.during(t, func() {
				granted = next.way.during(t, func() {
					released = holder.way.during(t, func() {
						testkit.Leave(t, holder.store, holder.claim)
						testkit.AwaitTold(t, next.told, next.claim.ID, "the next waiter is told")
					})
				})
			})
		})
		t.Logf("the release was %v, the grant %v, and the look of the waiter after that %v", released, granted, look)
		if want := map[int32]int{opDelete: 1}; !maps.Equal(released, want) {
			t.Errorf("the release was %v, want %v", released, want)
		}
		if !maps.Equal(look, wantLook) {
			t.Errorf("the waiter after the next asked for %v, want %v", look, wantLook)
		}
		if total(granted)+total(asked) != 0 {
			t.Errorf("the waiter that was granted the lock asked for %v, and the others for %v", granted, asked)
		}
		testkit.Keep(t, next.store, next.claim, store.Held)
	}
}

// A counted claim has a store for itself, whose requests are counted.
type counted struct {
	store *zkstore.Store
	way   *requests
	told  <-chan store.ID
	claim store.Claim
}

// joinCounted joins the queue of one name.
func joinCounted(t *testing.T, addr string) counted {
	t.Helper()
	s, way := openCounted(t, addr)
	c := counted{s, way, testkit.Listen(s), testkit.Claim("wanted", costTTL)}
	status, err := s.Join(t.Context(), c.claim)
	testkit.Must(t, err)
	c.claim.Ticket = status.Ticket
	return c
}

// A contended hand-over by way of the client costs no more than that of zk.Lock.
func TestHandOverCost(t *testing.T) {
	t.Parallel()
	server := servers.ZooKeeper(t)
	way, theirWay := countRequests(t, server.Addr(), 0), countRequests(t, server.Addr(), 0)
	url := "zk://" + way.addr + "?tick=200ms&ttl=" + costTTL.String()
	var clients [2]*holdfast.Client
	var theirs [2]*zk.Lock
	for i := range clients {
		clients[i] = holdfast.New(openURL(t, url), holdfast.WithTTL(costTTL))
		t.Cleanup(func() { clients[i].Close() })
		theirs[i] = zk.NewLock(dial(t, theirWay.addr, ""), "/theirs", zk.WorldACL(zk.PermAll))
	}
	lease := testkit.Lock(t, clients[0], "passed")
	testkit.Must(t, theirs[0].Lock())
	granted := make(chan *holdfast.Lease)
	theirGrant := make(chan error)
	waited := way.during(t, func() {
		go func() {
			lease, err := clients[1].Mutex("passed").Lock(t.Context())
			testkit.Check(t, err)
			granted <- lease
		}()
		testkit.Await(t, "it waits", func() bool { return way.sofar()[opGetChildren] > 0 })
	})
	theirWait := theirWay.during(t, func() {
		before := theirWay.sofar()[opGetChildren]
		go func() { theirGrant <- theirs[1].Lock() }()
		testkit.Await(t, "theirs waits", func() bool { return theirWay.sofar()[opGetChildren] > before })
	})
	var next *holdfast.Lease
	ours := way.during(t, func() {
		testkit.Unlock(t, lease)
		next = <-granted
	})
	testkit.Unlock(t, next)
	their := theirWay.during(t, func() {
		testkit.Must(t, theirs[0].Unlock())
		testkit.Must(t, <-theirGrant)
	})
	testkit.Must(t, theirs[1].Unlock())
	t.Logf("to wait: %v, zk.Lock %v; the hand-over: %v, zk.Lock %v", waited, theirWait, ours, their)
	if total(ours) > total(their) {
		t.Errorf("a hand-over was %v, and that of zk.Lock %v", ours, their)
	}
}

package consulstore_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/consulstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// What the server is asked for, by its own count.

// The requests that are counted. Consul counts one when it has responded to it.
const (
	transaction = "PUT v1_txn"
	renewal     = "PUT v1_session_renew_"
	creation    = "PUT v1_session_create"
	destruction = "PUT v1_session_destroy_"
)

var counted = []string{transaction, renewal, creation, destruction}

// costTTL is the ttl of sessions that are renewed too seldom to be counted here, also on a busy machine: a grant that
// was pushed is confirmed after a hundredth of it.
const costTTL = 2 * time.Hour

// A counter counts what a server is asked for.
type counter struct {
	testing.TB
	server *servers.ConsulServer
}

func newCounter(t *testing.T) *counter {
	t.Helper()
	t.Parallel()
	many := servers.Args("-hcl", "limits { http_max_conns_per_client = 1000 }")
	return &counter{t, newCluster(t, 1, many).Nodes[0]}
}

// open opens a client's store, and returns with it what counts the watches that fire.
func (c *counter) open() (*consulstore.Store, *consulstore.Valved) {
	c.Helper()
	addrs, v := []string{c.server.Addr()}, &consulstore.Valved{}
	s, err := consulstore.OpenThrough(c.Context(), v, addrs, addrs, consulstore.WithTTL(costTTL))
	testkit.Must(c, err)
	c.Cleanup(func() { s.Close() })
	return s, v
}

// sofar returns what has been responded to until now.
func (c *counter) sofar() map[string]int {
	c.Helper()
	counts, err := c.server.Requests(c.Context())
	testkit.Must(c, err)
	maps.DeleteFunc(counts, func(request string, _ int) bool { return !slices.Contains(counted, request) })
	return counts
}

// settled returns what has been responded to when that has not changed for a moment.
func (c *counter) settled() map[string]int {
	c.Helper()
	last, since := c.sofar(), time.Now()
	testkit.Await(c, "no more is asked for", func() bool {
		if now := c.sofar(); !maps.Equal(now, last) {
			last, since = now, time.Now()
		}
		return time.Since(since) > 100*time.Millisecond
	})
	return last
}

// during returns how many requests of each kind are responded to while do runs, and until they become no more. Blocking
// queries are left out: one that is under way ends by itself every ten seconds.
func (c *counter) during(do func()) map[string]int {
	c.Helper()
	before := c.settled()
	do()
	cost := c.settled()
	for request, n := range before {
		if cost[request] -= n; cost[request] == 0 {
			delete(cost, request)
		}
	}
	return cost
}

// must demands what something has cost.
func (c *counter) must(what string, cost, want map[string]int) {
	c.Helper()
	if !maps.Equal(cost, want) {
		c.Errorf("%s was %v, want %v", what, cost, want)
	}
}

// A lock that no other client wants costs one request, and its release another.
func TestOneRequestEach(t *testing.T) {
	c := newCounter(t)
	s, _ := c.open()
	locks := holdfast.New(s, holdfast.WithTTL(costTTL))
	defer locks.Close()
	const times = 20
	cost := c.during(func() {
		for range times {
			testkit.Unlock(t, testkit.Lock(t, locks, "inventory:42"))
		}
	})
	c.must("20 times Lock and Unlock", cost, map[string]int{transaction: 2 * times})
}

// Detach is a session and a transaction. Attach is a read and a transaction, and so is a Leave of a detached claim.
// After both, the session of the detached claim is ended in the background, which is a read and a request. An Extend is
// all of that: a read, a session, a transaction, and the end of the session before.
func TestDetachCost(t *testing.T) {
	c := newCounter(t)
	s, _ := c.open()
	held := testkit.Held(t, s, testkit.Claim("passed", costTTL))
	as := testkit.Claim("passed", costTTL)
	as.Ticket = held.Ticket
	cost := c.during(func() { testkit.Detach(t, s, held, as.ID) })
	c.must("Detach", cost, map[string]int{creation: 1, transaction: 1})
	cost = c.during(func() { testkit.Detach(t, s, as, as.ID) })
	c.must("Extend", cost, map[string]int{creation: 1, transaction: 2 + 1, destruction: 1})
	attached := testkit.Claim("passed", costTTL)
	attached.Ticket = held.Ticket
	cost = c.during(func() { testkit.Attach(t, s, attached, as.ID) })
	c.must("Attach", cost, map[string]int{transaction: 2 + 1, destruction: 1})
	testkit.Detach(t, s, attached, as.ID)
	cost = c.during(func() { testkit.Leave(t, s, as) })
	c.must("Leave", cost, map[string]int{transaction: 2 + 1, destruction: 1})
}

// A thousand claims are kept by ten transactions, and the session is renewed by another and one request.
func TestThousandRenewals(t *testing.T) {
	c := newCounter(t)
	s, _ := c.open()
	claims := make([]store.Claim, 1000)
	for i := range claims {
		claims[i] = testkit.Held(t, s, testkit.Claim(fmt.Sprint("claim ", i), costTTL))
	}
	cost := c.during(func() {
		statuses, err := s.Keep(t.Context(), claims)
		testkit.Must(t, err)
		for i, k := range statuses {
			if k.Err != nil || k.State != store.Held || k.Ticket != claims[i].Ticket {
				t.Fatalf("claim %d: %+v", i, k)
			}
		}
	})
	c.must("to keep 1,000 claims", cost, map[string]int{transaction: 10 + 1, renewal: 1})
}

// A release in a queue of 200 waiters of several clients costs one request of the holder, and one of the next waiter,
// which reads the queue. It fires the watch of that one, and no other.
func TestReleaseAmongWaiters(t *testing.T) {
	c := newCounter(t)
	holder, _ := c.open()
	next, nextValve := c.open()
	told := testkit.Listen(next)
	held := testkit.Held(t, holder, testkit.Claim("wanted", costTTL))
	first := testkit.Waiting(t, next, testkit.Claim("wanted", costTTL))
	var others [8]*consulstore.Store
	var valves [len(others)]*consulstore.Valved
	for i := range others {
		others[i], valves[i] = c.open()
	}
	for i := range 199 {
		testkit.Waiting(t, others[i%len(others)], testkit.Claim("wanted", costTTL))
	}
	cost := c.during(func() {
		testkit.Leave(t, holder, held)
		testkit.AwaitTold(t, told, first.ID, "the next waiter is told")
	})
	c.must("a release and the grant", cost, map[string]int{transaction: 2})
	if n := nextValve.Fired.Load(); n != 1 {
		t.Errorf("%d watches of the next waiter have fired", n)
	}
	for i, v := range valves {
		if n := v.Fired.Load(); n != 0 {
			t.Errorf("%d watches of client %d have fired", n, i)
		}
	}
	testkit.Keep(t, next, first, store.Held)
}

// To wait costs three requests: the claim's transaction, a read of what it waits for, and the blocking query. A
// hand-over costs two beside the end of that query: the release, and a read of the queue.
func TestHandOverCost(t *testing.T) {
	c := newCounter(t)
	var clients [2]*holdfast.Client
	for i := range clients {
		s, _ := c.open()
		clients[i] = holdfast.New(s, holdfast.WithTTL(costTTL))
		t.Cleanup(func() { clients[i].Close() })
	}
	lease := testkit.Lock(t, clients[0], "passed")
	granted := make(chan *holdfast.Lease)
	waited := c.during(func() {
		queries := c.queries()
		go func() {
			lease, err := clients[1].Mutex("passed").Lock(t.Context())
			testkit.Check(t, err)
			granted <- lease
		}()
		testkit.Await(t, "it waits", func() bool { return c.queries() > queries })
	})
	c.must("to wait", waited, map[string]int{transaction: 2})
	var next *holdfast.Lease
	passed := c.during(func() {
		testkit.Unlock(t, lease)
		next = <-granted
	})
	c.must("the hand-over", passed, map[string]int{transaction: 2})
	testkit.Unlock(t, next)
}

// queries returns how many blocking queries are under way.
func (c *counter) queries() int {
	c.Helper()
	n, err := c.server.BlockingQueries(c.Context())
	testkit.Must(c, err)
	return n
}

// A client that waits for 100 names has 32 blocking queries for that, and one for its session. It is told of what it
// waits for without one, too.
func TestManyNamesWaitedFor(t *testing.T) {
	const most = 32
	c := newCounter(t)
	holder, _ := c.open()
	waiter, _ := c.open()
	told := testkit.Listen(waiter)
	var held, waiting [100]store.Claim
	for i := range held {
		held[i] = testkit.Held(t, holder, testkit.Claim(fmt.Sprint("name ", i), costTTL))
	}
	for i := range waiting {
		waiting[i] = testkit.Waiting(t, waiter, testkit.Claim(fmt.Sprint("name ", i), costTTL))
	}
	testkit.Await(t, "the blocking queries are under way", func() bool { return c.queries() == most+2 })
	for _, i := range []int{99, 66, 33} { // without a query when it began
		testkit.Leave(t, holder, held[i])
		testkit.AwaitTold(t, told, waiting[i].ID, "it is told of the release")
	}
	testkit.Await(t, "each query that has ended is replaced", func() bool {
		n := c.queries()
		if n > most+2 {
			t.Errorf("%d blocking queries", n)
		}
		return n >= most+2
	})
}

// A client polls a queue, and a key of that queue too, which one request has twice. Nothing changes in it, and nothing
// fires.
func TestPolledLine(t *testing.T) {
	c := newCounter(t)
	holder, _ := c.open()
	waiter, valve := c.open()
	for i := range 32 { // these have the blocking queries
		name := fmt.Sprint("name ", i)
		testkit.Held(t, holder, testkit.Claim(name, costTTL))
		testkit.Waiting(t, waiter, testkit.Claim(name, costTTL))
	}
	part := func(units int32) store.Claim {
		claim := testkit.Claim("parts", costTTL)
		claim.Demand = store.Demand{Kind: store.Semaphore, Units: units, Limit: 3}
		return claim
	}
	testkit.Held(t, holder, part(3))
	testkit.Waiting(t, waiter, part(1))
	testkit.Waiting(t, waiter, part(3))
	fired, since := valve.Fired.Load(), time.Now()
	testkit.Await(t, "nothing fires in four polls", func() bool {
		if now := valve.Fired.Load(); now != fired {
			fired, since = now, time.Now()
		}
		return time.Since(since) > time.Second
	})
}

// A claim that gives up waiting leaves its blocking query behind: Consul lets it go on, and counts its connection, of
// which it takes 200 from one address. However many give up, there are no more queries than 32 and those of sessions.
func TestGivenUpQueries(t *testing.T) {
	c := newCounter(t)
	holder, _ := c.open()
	waiter, _ := c.open()
	const most = 32
	for round := range 3 {
		var waiting []store.Claim
		for i := range most {
			name := fmt.Sprint("round ", round, " name ", i)
			testkit.Held(t, holder, testkit.Claim(name, costTTL))
			waiting = append(waiting, testkit.Waiting(t, waiter, testkit.Claim(name, costTTL)))
		}
		testkit.Await(t, "the blocking queries are under way", func() bool { return c.queries() >= most+2 })
		if testkit.Soon(time.Second/2, func() bool { return c.queries() > most+2 }) {
			t.Fatalf("there are more than %d blocking queries", most+2)
		}
		for _, claim := range waiting {
			testkit.Leave(t, waiter, claim)
		}
	}
}

package etcdstore_test

import (
	"fmt"
	"maps"
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// What etcd is asked for, counted by etcd itself.

type callCounts = map[string]servers.EtcdCalls

// counted is what clients have asked of the server so far. It waits until that changes no more: etcd counts a moment
// after it has answered.
func counted(t testing.TB, server *servers.EtcdServer) callCounts {
	t.Helper()
	var last callCounts
	settled := time.Now()
	testkit.Await(t, "the server is at rest", func() bool {
		now, err := server.Calls()
		testkit.Must(t, err)
		if !maps.Equal(now, last) {
			last, settled = now, time.Now()
		}
		return time.Since(settled) > 100*time.Millisecond
	})
	return last
}

// costOf is what doing something costs.
func costOf(t testing.TB, server *servers.EtcdServer, do func()) callCounts {
	t.Helper()
	before := counted(t, server)
	do()
	asked := counted(t, server)
	for method, b := range before {
		a := asked[method]
		asked[method] = servers.EtcdCalls{
			Started:  a.Started - b.Started,
			Received: a.Received - b.Received,
			Sent:     a.Sent - b.Sent,
		}
	}
	maps.DeleteFunc(asked, func(_ string, c servers.EtcdCalls) bool { return c == servers.EtcdCalls{} })
	return asked
}

// A lock that nobody else wants costs one transaction, and giving it back another. Only one that is held for a while is
// watched.
func TestOneTransactionEach(t *testing.T) {
	server, s := newServer(t, "")
	locks := holdfast.New(s)
	defer locks.Close()
	const shortly, tooLong = 5 * time.Millisecond, 20 * time.Millisecond
	lockAndUnlock := func(hold time.Duration) (took time.Duration) {
		began := time.Now()
		lease := testkit.Lock(t, locks, "inventory:42")
		time.Sleep(hold)
		testkit.Must(t, lease.Unlock(t.Context()))
		return time.Since(began)
	}
	testkit.Await(t, "the machine has time for this test", func() bool {
		var took time.Duration
		got := costOf(t, server, func() { took = lockAndUnlock(shortly) })
		if took > tooLong || renewed(got) {
			return false
		}
		if want := (callCounts{"Txn": {Started: 2, Received: 2, Sent: 2}}); !maps.Equal(got, want) {
			t.Errorf("Lock and Unlock were %+v, want %+v", got, want)
		}
		return true
	})
	testkit.Await(t, "nothing comes in between", func() bool {
		got := costOf(t, server, func() { lockAndUnlock(5 * tooLong) })
		if renewed(got) {
			return false
		}
		if got["Txn"].Received != 2 || got["Watch"].Received == 0 {
			t.Errorf("a lock that is held for %v was %+v, want two transactions and a watch", 5*tooLong, got)
		}
		return true
	})
}

// A Detach costs a lease and a transaction; an Attach two transactions, and in the background the end of that lease.
func TestDetachCost(t *testing.T) {
	server, s := newServer(t, "")
	testkit.Await(t, "nothing comes in between", func() bool {
		c := testkit.Held(t, s, claim("a"))
		var as store.Claim
		detaching := costOf(t, server, func() { as = testkit.Detached(t, s, c) })
		attaching := costOf(t, server, func() { c = testkit.Attached(t, s, as) })
		testkit.Leave(t, s, c)
		if renewed(detaching) || renewed(attaching) {
			return false
		}
		delete(detaching, "Watch") // the claim's own key may have been watched
		delete(attaching, "Watch")
		one := servers.EtcdCalls{Started: 1, Received: 1, Sent: 1}
		if want := (callCounts{"LeaseGrant": one, "Txn": one}); !maps.Equal(detaching, want) {
			t.Errorf("Detach was %+v, want %+v", detaching, want)
		}
		want := callCounts{
			"Txn": {Started: 2, Received: 2, Sent: 2}, "LeaseTimeToLive": one, "LeaseRevoke": one,
		}
		if !maps.Equal(attaching, want) {
			t.Errorf("Attach was %+v, want %+v", attaching, want)
		}
		return true
	})
}

// renewed says whether a session was renewed meanwhile, by itself. That costs a transaction more.
func renewed(asked callCounts) bool { return asked["LeaseKeepAlive"].Received > 0 }

// Many leases of one client are kept by few calls, over one stream, and without a goroutine for each.
func TestThousandLeases(t *testing.T) {
	server, s := newServer(t, "?ttl=6s")
	const many, batch, round = 1000, 60, 2 * time.Second // a third of the ttl
	goroutines := runtime.NumGoroutine()
	locks := holdfast.New(s)
	defer locks.Close()
	leases := make([]*holdfast.Lease, many)
	for i := range leases {
		var err error
		if leases[i], err = locks.Mutex(fmt.Sprint("lock ", i)).Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	checkGoroutines(t, goroutines, fmt.Sprint(many, " leases"))
	calls := func() callCounts {
		now, err := server.Calls()
		testkit.Must(t, err)
		return now
	}
	before, began := calls(), time.Now()
	const rounds, least = 2, many / batch
	time.Sleep(rounds * round) // is what it is about
	var after callCounts
	kept := 0
	testkit.Await(t, "they are kept", func() bool {
		after = calls()
		kept = after["Txn"].Received - before["Txn"].Received
		return kept >= least
	})
	took := time.Since(began)
	if most := 2 * many / batch * (int(took/round) + 1); kept > most {
		t.Errorf("%d leases were kept for %v by %d transactions, want %d at most", many, took, kept, most)
	}
	if beats := after["LeaseKeepAlive"]; beats.Started != 1 {
		t.Errorf("%d leases have %d streams of renewals, want one", many, beats.Started)
	}
	if watches := after["Watch"]; watches.Started != 1 {
		t.Errorf("%d leases have %d streams of watches, want one", many, watches.Started)
	}
	for _, lease := range leases {
		if err := lease.Err(); err != nil {
			t.Fatalf("%v", err)
		}
	}
}

// checkGoroutines demands that there are not many more than before, but for those that just come to an end.
func checkGoroutines(t *testing.T, before int, of string) {
	t.Helper()
	const few = 12 // some of gRPC's, and those of two streams
	testkit.Await(t, fmt.Sprintf("%s have %d goroutines at most", of, few),
		func() bool { return runtime.NumGoroutine()-before <= few })
}

// One Keep of a thousand claims is one renewal, with a read of its own, and a transaction for every sixty.
func TestKeepInBatches(t *testing.T) {
	server, s := newServer(t, "")
	claims := make([]store.Claim, 1000)
	for i := range claims {
		claims[i] = claim(fmt.Sprint("claim ", i))
		testkit.Join(t, s, &claims[i], store.Held)
	}
	got := costOf(t, server, func() {
		statuses, err := s.Keep(t.Context(), claims)
		testkit.Must(t, err)
		for i, k := range statuses {
			if k.Err != nil || k.State != store.Held || k.Ticket != claims[i].Ticket {
				t.Fatalf("claim %d: %+v", i, k)
			}
		}
	})
	const least, most = 1000/128 + 1, 1000/60 + 2 // an operation for each, and etcd allows 128 in a transaction
	beats := got["LeaseKeepAlive"].Received       // the session may have its own just before
	if n := got["Txn"].Received; n < least || n > most || beats < 1 || beats > 2 {
		t.Errorf("1,000 claims were kept by %+v, want %d to %d transactions and one renewal", got, least, most)
	}
}

// A hand-over costs the same in a queue of a thousand as in one of ten, and nobody who waits has a goroutine.
func TestHandOverCost(t *testing.T) {
	server, a := newServer(t, "")
	b := openAt(t, "etcd://"+server.Addr())
	told := make(chan store.ID, 100)
	for _, s := range []*etcdstore.Store{a, b} {
		s.Notify(func(id store.ID, status store.Status) {
			if status.State == store.Held {
				told <- id
			}
		})
	}
	const handOvers = 5
	const slack = 4 // both sessions may be renewed meanwhile
	// And their streams of watches be asked for a sign of life. Who leaves may still be told that its own key is gone,
	// or not.
	const noise = 4*slack + handOvers
	cost := func(waiters int) callCounts {
		line := make([]store.Claim, waiters+1)
		stores := make([]*etcdstore.Store, len(line))
		goroutines := runtime.NumGoroutine()
		for i := range line {
			line[i] = claim(fmt.Sprint("line of ", waiters))
			stores[i] = []*etcdstore.Store{a, b}[i%2]
			state := store.Waiting
			if i == 0 {
				state = store.Held
			}
			testkit.Join(t, stores[i], &line[i], state)
		}
		got := costOf(t, server, func() {
			checkGoroutines(t, goroutines, fmt.Sprint(waiters, " who wait"))
			for i := range handOvers {
				testkit.Leave(t, stores[i], line[i])
				select {
				case id := <-told:
					if id != line[i+1].ID {
						t.Fatalf("hand-over %d went to %v, want to %v", i, id, line[i+1].ID)
					}
				case <-time.After(10 * time.Second):
					t.Fatalf("nobody was told of hand-over %d", i)
				}
			}
		})
		if n := got["Txn"].Received; n < 2*handOvers || n > 2*handOvers+slack {
			t.Errorf("%d hand-overs in a line of %d were %d transactions, want two each", handOvers, waiters, n)
		}
		return got
	}
	short, long := cost(10)["Watch"], cost(1000)["Watch"]
	if long.Received > short.Received+noise || long.Sent > short.Sent+noise || short.Sent < handOvers {
		t.Errorf("%d hand-overs were these messages about watches: %+v in a line of 10, and %+v in one of 1,000",
			handOvers, short, long)
	}
}

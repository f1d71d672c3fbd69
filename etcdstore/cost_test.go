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
	"github.com/holdfast-go/holdfast/store"
)

// What etcd is asked for, counted by etcd itself.

type callCounts = map[string]servers.EtcdCalls

// counted is what clients have asked of the server so far. It waits until that changes no more: etcd counts a moment after
// it has answered.
func counted(t testing.TB, server *servers.EtcdServer) callCounts {
	t.Helper()
	var last callCounts
	settled := time.Now()
	await(t, "the server is at rest", func() bool {
		now, err := server.Calls()
		if err != nil {
			t.Fatal(err)
		}
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
		asked[method] = servers.EtcdCalls{Started: a.Started - b.Started, Received: a.Received - b.Received, Sent: a.Sent - b.Sent}
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
	const times, shortly, tooLong = 3, 5 * time.Millisecond, 20 * time.Millisecond
	lockAndUnlock := func(hold time.Duration) (took time.Duration) {
		began := time.Now()
		lease, err := locks.Mutex("inventory:42").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(hold)
		if err := lease.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	await(t, "the machine has time for this test", func() bool {
		var slowest time.Duration
		got := costOf(t, server, func() {
			for range times {
				slowest = max(slowest, lockAndUnlock(shortly))
			}
		})
		if slowest > tooLong {
			return false
		}
		if want := (callCounts{"Txn": {Started: 2 * times, Received: 2 * times, Sent: 2 * times}}); !maps.Equal(got, want) {
			t.Errorf("%d times Lock and Unlock were %+v, want %+v", times, got, want)
		}
		return true
	})
	got := costOf(t, server, func() { lockAndUnlock(5 * tooLong) })
	if got["Txn"].Received != 2 || got["Watch"].Received == 0 {
		t.Errorf("a lock that is held for %v was %+v, want two transactions and a watch", 5*tooLong, got)
	}
}

// Many leases of one client are kept by few calls, over one stream, and without a goroutine for each.
func TestThousandLeases(t *testing.T) {
	server, s := newServer(t, "?ttl=3s")
	const many, batch, round = 1000, 60, time.Second // a third of the ttl
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
	before, err := server.Calls()
	if err != nil {
		t.Fatal(err)
	}
	const rounds = 2
	time.Sleep(rounds * round) // is what it is about
	after, err := server.Calls()
	if err != nil {
		t.Fatal(err)
	}
	kept := after["Txn"].Received - before["Txn"].Received
	if least, most := many/batch*(rounds-1), 2*many/batch*rounds; kept < least || kept > most {
		t.Errorf("%d leases were kept for %v by %d transactions, want %d to %d", many, rounds*round, kept, least, most)
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

// checkGoroutines demands that there are not many more than before.
func checkGoroutines(t *testing.T, before int, of string) {
	t.Helper()
	const few = 12 // some of gRPC's, and those of two streams
	if more := runtime.NumGoroutine() - before; more > few {
		t.Errorf("%s have %d goroutines, want %d at most", of, more, few)
	}
}

// One Keep of a thousand claims is one renewal, with a read of its own, and a transaction for every sixty.
func TestKeepInBatches(t *testing.T) {
	server, s := newServer(t, "")
	claims := make([]store.Claim, 1000)
	for i := range claims {
		claims[i] = claim(fmt.Sprint("claim ", i))
		join(t, s, &claims[i], store.Held)
	}
	got := costOf(t, server, func() {
		standings, err := s.Keep(t.Context(), claims)
		if err != nil {
			t.Fatal(err)
		}
		for i, k := range standings {
			if k.Err != nil || k.State != store.Held || k.Ticket != claims[i].Ticket {
				t.Fatalf("claim %d: %+v", i, k)
			}
		}
	})
	const least, most = 1000/128 + 1, 1000/60 + 2 // an operation for each, and etcd allows 128 in a transaction
	if n := got["Txn"].Received; n < least || n > most || got["LeaseKeepAlive"].Received != 1 {
		t.Errorf("1,000 claims were kept by %+v, want %d to %d transactions and one renewal", got, least, most)
	}
}

// A hand-over costs the same in a line of a thousand as in one of ten, and nobody who waits has a goroutine.
func TestHandOverCost(t *testing.T) {
	server, a := newServer(t, "")
	b := openAt(t, "etcd://"+server.Addr())
	told := make(chan store.ID, 100)
	for _, s := range []*etcdstore.Store{a, b} {
		s.Notify(func(id store.ID, standing store.Standing) {
			if standing.State == store.Held {
				told <- id
			}
		})
	}
	const handOvers = 5
	const slack = 4 // both sessions may be renewed meanwhile, and the streams of watches be asked for a sign of life
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
			join(t, stores[i], &line[i], state)
		}
		got := costOf(t, server, func() {
			checkGoroutines(t, goroutines, fmt.Sprint(waiters, " who wait"))
			for i := range handOvers {
				leave(t, stores[i], line[i])
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
	if long.Received > short.Received+slack || long.Sent > short.Sent+slack || short.Sent < handOvers {
		t.Errorf("%d hand-overs were these messages about watches: %+v in a line of 10, and %+v in one of 1,000", handOvers, short, long)
	}
}

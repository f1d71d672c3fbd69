package etcdstore_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// all strands every transaction that puts or moves a claim.
func (f *ferry) all(to fate) {
	f.decide(func(r *etcdserverpb.TxnRequest) fate {
		if joins(r) {
			return to
		}
		return delivered
	})
}

// newDetachTest returns a server and a store for the tests of all stores with sessions.
func newDetachTest(t *testing.T) *testkit.DetachTest {
	t.Helper()
	t.Parallel()
	server, f, s := newFerry(t, etcdstore.DefaultTTL)
	fates := map[testkit.Fate]fate{
		testkit.Unanswered: unanswered, testkit.Stranded: stranded, testkit.Denied: denied,
	}
	return &testkit.DetachTest{
		T: t, Store: s, TTL: etcdstore.DefaultTTL,
		Open: func() testkit.DetachStore { return openAt(t, "etcd://"+server.Addr()) },
		Send: func(to testkit.Fate, call func(context.Context) error) error {
			f.all(fates[to])
			defer f.free()
			return call(t.Context())
		},
		Land:          func() bool { return f.land(t) != 0 },
		AwaitSessions: func(n int) { awaitLeases(t, server, n) },
	}
}

// awaitLeases waits until etcd has that many leases.
func awaitLeases(t testing.TB, server *servers.EtcdServer, want int) {
	t.Helper()
	client := server.Client(t)
	testkit.Await(t, "no lease is left over", func() bool {
		leases, err := client.Leases(t.Context())
		testkit.Must(t, err)
		return len(leases.Leases) == want
	})
}

func TestDetachLandsAfterItsLeave(t *testing.T) { newDetachTest(t).TestDetachLandsAfterItsLeave() }

func TestAttachLandsAfterItsLeave(t *testing.T) { newDetachTest(t).TestAttachLandsAfterItsLeave() }

func TestResponseToDetachIsLost(t *testing.T) { testkit.TestResponseToDetachIsLost(t, newDetachTest) }

func TestResponseToAttachIsLost(t *testing.T) { newDetachTest(t).TestResponseToAttachIsLost() }

func TestLeaveOfEarlierIDSparesTheHeir(t *testing.T) { newDetachTest(t).TestLeaveOfEarlierID() }

func TestWaitingIsNotDetached(t *testing.T) { newDetachTest(t).TestWaitingIsNotDetached() }

func TestRefusedDetachLeavesNothing(t *testing.T) { newDetachTest(t).TestRefusedDetach() }

// A Keep that writes into the claim's key is in flight while the claim is detached. It must not give the key the
// earlier ID again.
func TestLateKeepSparesDetached(t *testing.T) {
	t.Parallel()
	_, f, s := newFerry(t, etcdstore.DefaultTTL)
	c := testkit.Held(t, s, claim("a"))
	writing := make(chan struct{}, 1)
	f.decide(func(r *etcdserverpb.TxnRequest) fate {
		if !voids(r) {
			return delivered
		}
		writing <- struct{}{}
		return detained
	})
	kept := make(chan store.State, 1)
	go func() {
		news := c
		news.Turn++
		statuses, err := s.Keep(t.Context(), []store.Claim{news})
		if err != nil {
			t.Errorf("Keep: %v", err)
			close(kept)
			return
		}
		kept <- statuses[0].State
	}()
	<-writing
	as := testkit.Detached(t, s, c)
	f.free()
	if state := <-kept; state != store.Gone {
		t.Errorf("Keep of a claim that was detached meanwhile: %v", state)
	}
	testkit.Attached(t, s, as)
}

// A detached claim keeps its key, and so does one that is attached again. Claims that its first client joins with later
// have other keys, and never remove it.
func TestKeysBesideDetached(t *testing.T) {
	t.Parallel()
	server, s := newServer(t, "")
	const many = 30 // more than a Join has attempts
	part := func() store.Claim {
		c := claim("seats")
		c.Demand = store.Demand{Kind: store.Semaphore, Units: 1, Limit: many + 3}
		return c
	}
	var detached []store.Claim
	for range many {
		detached = append(detached, testkit.Detached(t, s, testkit.Held(t, s, part())))
	}
	try := part()
	try.Try = true
	testkit.Join(t, s, &try, store.Held)
	first := testkit.Attached(t, s, detached[0])
	beside := testkit.Held(t, s, part())
	testkit.Leave(t, s, beside)
	testkit.Leave(t, s, try)
	beside, last, waiter := testkit.Held(t, s, part()), testkit.Held(t, s, part()), part()
	testkit.Held(t, s, part())
	testkit.Join(t, s, &waiter, store.Waiting)
	testkit.Keep(t, s, first, store.Held)
	testkit.CheckLength(t, s, "seats", many+4)
	for _, c := range []store.Claim{first, detached[1], beside, last} {
		testkit.Leave(t, s, c)
	}
	testkit.AwaitHeld(t, s, waiter)
	testkit.CheckLength(t, s, "seats", many)
	for _, c := range detached[2:] {
		testkit.Leave(t, s, c)
	}
	awaitLeases(t, server, 1)
}

// A lock that its own client has detached is refused to the same client in one transaction.
func TestTryBesideDetached(t *testing.T) {
	t.Parallel()
	_, s := newServer(t, "")
	as := testkit.Detached(t, s, testkit.Held(t, s, claim("a")))
	try := claim("a")
	try.Try = true
	status := testkit.Join(t, s, &try, store.Gone)
	if status.Holder == nil || status.Holder.ID != as.ID {
		t.Errorf("the holder is %+v", status.Holder)
	}
	waiter := testkit.Waiting(t, s, claim("a"))
	testkit.Leave(t, s, as)
	testkit.AwaitHeld(t, s, waiter)
}

// A Detach that extends a claim that is detached already, and the Attach at the end, move the key to another lease, and
// revoke the one before. A Detach for less changes nothing, and one that finds no claim leaves no lease.
func TestLeasesOfDetached(t *testing.T) {
	t.Parallel()
	server, s := newServer(t, "")
	other := openAt(t, "etcd://"+server.Addr())
	c := testkit.Held(t, s, claim("a"))
	as := testkit.Detached(t, s, c)
	for _, d := range []time.Duration{testkit.DetachedFor / 2, 2 * testkit.DetachedFor} {
		testkit.DetachedAs(t, other, as, as, d)
		line, err := s.Queue(t.Context(), "a")
		testkit.Must(t, err)
		want := max(d, testkit.DetachedFor)
		if left := line.Entries[0].Left; left > want || left < want/2 || line.Entries[0].TTL != want {
			t.Errorf("extended by %v, and it has %v of %v left", d, left, line.Entries[0].TTL)
		}
		awaitLeases(t, server, 3)
	}
	attached := testkit.Attached(t, other, as)
	awaitLeases(t, server, 2)
	status, err := s.Detach(t.Context(), c, testkit.Heir(c).ID, testkit.DetachedFor)
	if err != nil || status.State != store.Gone {
		t.Errorf("Detach of a claim that is gone: %v and %v", status.State, err)
	}
	testkit.Leave(t, other, attached)
	testkit.CheckLength(t, s, "a", 0)
	awaitLeases(t, server, 2)
}

// The session of the client ends, and later the leader is killed. The detached claim stays, and is attached.
func TestDetachedSurvivesSessionAndLeader(t *testing.T) {
	t.Parallel()
	cluster := servers.EtcdCluster(t, 3)
	url := "etcd://" + strings.Join(cluster.Endpoints(), ",")
	s, other := openAt(t, url), openAt(t, url)
	c := testkit.Held(t, s, claim("a"))
	as := testkit.Detached(t, s, c)
	testkit.Must(t, s.Close())
	leader, err := cluster.Leader()
	testkit.Must(t, err)
	testkit.Must(t, leader.Kill())
	try := claim("a")
	try.Try = true
	testkit.Join(t, other, &try, store.Gone)
	attached := testkit.Attached(t, other, as)
	if attached.Ticket != c.Ticket {
		t.Errorf("the ticket was %d, and is %d", c.Ticket, attached.Ticket)
	}
	testkit.Keep(t, other, attached, store.Held)
}

// A client of the version before claims could be detached reads them as any other, with its decoder: the format is
// still "1", and the units count.
func TestEarlierVersionReadsDetached(t *testing.T) {
	t.Parallel()
	server, s := newServer(t, "")
	c := testkit.Held(t, s, claim("a"))
	as := testkit.Detached(t, s, c)
	line, err := server.Client(t).Get(t.Context(), etcdstore.LineKey("a"), clientv3.WithPrefix())
	testkit.Must(t, err)
	var read struct {
		ID    store.ID   `json:"id"`
		Kind  store.Kind `json:"kind"`
		Units int32      `json:"units"`
		Limit int32      `json:"limit"`
	}
	kv := line.Kvs[0]
	text, ok := strings.CutPrefix(string(kv.Value), "1 ")
	if err := json.Unmarshal([]byte(text), &read); err != nil || !ok {
		t.Fatalf("%s: %v", kv.Value, err)
	}
	if read.ID != as.ID || (store.Demand{Kind: read.Kind, Units: read.Units, Limit: read.Limit}) != c.Demand ||
		uint64(kv.CreateRevision) != c.Ticket { //nolint:gosec // a revision
		t.Errorf("ticket %d is %+v at revision %d", c.Ticket, read, kv.CreateRevision)
	}
}

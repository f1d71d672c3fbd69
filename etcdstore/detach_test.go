package etcdstore_test

import (
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

// detachedFor is how long claims are detached in these tests: until their end.
const detachedFor = 10 * time.Minute

// heir returns a claim like c with an ID of its own, for Detach and Attach.
func heir(c store.Claim) store.Claim {
	other := claim(c.Name)
	other.Demand = c.Demand
	return other
}

// detach detaches a claim, which must work, and returns it with its new ID.
func detach(t testing.TB, s *etcdstore.Store, c store.Claim) store.Claim {
	t.Helper()
	as := heir(c)
	detachAs(t, s, c, as, detachedFor)
	as.Ticket = c.Ticket
	return as
}

// detachAs calls Detach, which must work.
func detachAs(t testing.TB, s *etcdstore.Store, c, as store.Claim, d time.Duration) {
	t.Helper()
	status, err := s.Detach(t.Context(), c, as.ID, d)
	if err != nil || status.State != store.Held || status.Ticket != c.Ticket {
		t.Fatalf("Detach of ticket %d: %v of ticket %d and %v", c.Ticket, status.State, status.Ticket, err)
	}
}

// attach attaches a detached claim, requires a state, and returns the claim.
func attach(t testing.TB, s *etcdstore.Store, from store.Claim, want store.State) store.Claim {
	t.Helper()
	c := heir(from)
	status, err := s.Attach(t.Context(), c, from.ID)
	if err != nil || status.State != want {
		t.Fatalf("Attach of %q: %v and %v, want %v", from.Name, status.State, err, want)
	}
	c.Ticket = status.Ticket
	return c
}

// all strands every transaction that puts or moves a claim.
func (f *ferry) all(to fate) {
	f.decide(func(r *etcdserverpb.TxnRequest) fate {
		if joins(r) {
			return to
		}
		return delivered
	})
}

// mustNotDetach calls Detach, whose response must be lost.
func mustNotDetach(t testing.TB, s *etcdstore.Store, c, as store.Claim) {
	t.Helper()
	status, err := s.Detach(t.Context(), c, as.ID, detachedFor)
	if err == nil || store.Final(err) {
		t.Fatalf("Detach without a response: %v and %v", status.State, err)
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

// The caller of a Detach without a response leaves its new ID. The Detach arrives after that, and must be void: the
// claim would be in the queue for as long as it was to be detached.
func TestDetachLandsAfterItsLeave(t *testing.T) {
	t.Parallel()
	server, f, s := newFerry(t, etcdstore.DefaultTTL)
	c := testkit.Held(t, s, claim("a"))
	as := heir(c)
	f.all(stranded)
	mustNotDetach(t, s, c, as)
	testkit.Leave(t, s, as)
	if landed := f.land(t); landed != 0 {
		t.Errorf("%d late transactions were carried out", landed)
	}
	testkit.Keep(t, s, c, store.Held)
	if status, err := s.Detach(t.Context(), c, as.ID, detachedFor); err != nil || status.State != store.Gone {
		t.Errorf("Detach after the Leave of its new ID: %v and %v", status.State, err)
	}
	testkit.Leave(t, s, c)
	testkit.CheckLength(t, s, "a", 0)
	awaitLeases(t, server, 1)
}

// The same for an Attach: the detached claim stays as it was, and another client can attach it.
func TestAttachLandsAfterItsLeave(t *testing.T) {
	t.Parallel()
	server, f, s := newFerry(t, etcdstore.DefaultTTL)
	other := openAt(t, "etcd://"+server.Addr())
	as := detach(t, other, testkit.Held(t, other, claim("a")))
	late := heir(as)
	f.all(stranded)
	if status, err := s.Attach(t.Context(), late, as.ID); err == nil {
		t.Fatalf("Attach without a response: %v", status.State)
	}
	testkit.Leave(t, s, late)
	if landed := f.land(t); landed != 0 {
		t.Errorf("%d late transactions were carried out", landed)
	}
	testkit.Leave(t, other, attach(t, other, as, store.Held))
	testkit.CheckLength(t, s, "a", 0)
	awaitLeases(t, server, 2)
}

// A caller whose response was lost repeats the call, or leaves both IDs. In the end no claim and no lease is left.
func TestResponseToDetachIsLost(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(t *testing.T, s *etcdstore.Store, c, as store.Claim){
		"repeated": func(t *testing.T, s *etcdstore.Store, c, as store.Claim) {
			detachAs(t, s, c, as, detachedFor)
			as.Ticket = c.Ticket
			testkit.Leave(t, s, attach(t, s, as, store.Held))
		},
		"left": func(t *testing.T, s *etcdstore.Store, c, as store.Claim) {
			testkit.Leave(t, s, c)
			testkit.Leave(t, s, as)
		},
		"left in the other order": func(t *testing.T, s *etcdstore.Store, c, as store.Claim) {
			testkit.Leave(t, s, as)
			testkit.Leave(t, s, c)
		},
		"kept and left": func(t *testing.T, s *etcdstore.Store, c, as store.Claim) {
			testkit.Ask(t, s, c)
			testkit.Leave(t, s, as)
			testkit.Leave(t, s, c)
		},
	} {
		for _, lost := range []fate{unanswered, stranded} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				server, f, s := newFerry(t, etcdstore.DefaultTTL)
				c := testkit.Held(t, s, claim("a"))
				as := heir(c)
				f.all(lost)
				mustNotDetach(t, s, c, as)
				f.free()
				then(t, s, c, as)
				if lost == stranded && f.land(t) != 0 {
					t.Error("a late transaction was carried out")
				}
				testkit.CheckLength(t, s, "a", 0)
				awaitLeases(t, server, 1)
				testkit.Leave(t, s, testkit.Held(t, s, claim("a")))
			})
		}
	}
}

// The response to an Attach is lost. It is repeated, or its claim is left.
func TestResponseToAttachIsLost(t *testing.T) {
	t.Parallel()
	server, f, s := newFerry(t, etcdstore.DefaultTTL)
	for _, repeat := range []bool{true, false} {
		as := detach(t, s, testkit.Held(t, s, claim("a")))
		c := heir(as)
		f.all(unanswered)
		if status, err := s.Attach(t.Context(), c, as.ID); err == nil {
			t.Fatalf("Attach without a response: %v", status.State)
		}
		f.free()
		if repeat {
			status, err := s.Attach(t.Context(), c, as.ID)
			if err != nil || status.State != store.Held || status.Ticket != as.Ticket {
				t.Fatalf("Attach once more: %v of ticket %d and %v", status.State, status.Ticket, err)
			}
			c.Ticket = status.Ticket
			testkit.Keep(t, s, c, store.Held)
		}
		testkit.Leave(t, s, c)
		testkit.CheckLength(t, s, "a", 0)
		awaitLeases(t, server, 1)
	}
}

// A Detach is carried out, its response is lost, and another client attaches the claim. Then the first client leaves
// what it believes to have. That must not touch the claim, which it finds at the same key with the same ticket.
func TestLeaveOfEarlierIDSparesTheHeir(t *testing.T) {
	t.Parallel()
	server, f, s := newFerry(t, etcdstore.DefaultTTL)
	for name, attaching := range map[string]*etcdstore.Store{
		"another client":  openAt(t, "etcd://"+server.Addr()),
		"the same client": s,
	} {
		t.Run(name, func(t *testing.T) {
			c := testkit.Held(t, s, claim(name))
			as := heir(c)
			f.all(unanswered)
			mustNotDetach(t, s, c, as)
			f.free()
			attached := attach(t, attaching, as, store.Held)
			testkit.Leave(t, s, c)
			testkit.Leave(t, s, as)
			testkit.Keep(t, s, c, store.Gone)
			testkit.Keep(t, attaching, attached, store.Held)
			testkit.Leave(t, attaching, attached)
			testkit.CheckLength(t, s, name, 0)
		})
	}
}

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
	as := detach(t, s, c)
	f.free()
	if state := <-kept; state != store.Gone {
		t.Errorf("Keep of a claim that was detached meanwhile: %v", state)
	}
	attach(t, s, as, store.Held)
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
		detached = append(detached, detach(t, s, testkit.Held(t, s, part())))
	}
	try := part()
	try.Try = true
	testkit.Join(t, s, &try, store.Held)
	first := attach(t, s, detached[0], store.Held)
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
	as := detach(t, s, testkit.Held(t, s, claim("a")))
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
	as := detach(t, s, c)
	for _, d := range []time.Duration{detachedFor / 2, 2 * detachedFor} {
		detachAs(t, other, as, as, d)
		line, err := s.Queue(t.Context(), "a")
		testkit.Must(t, err)
		want := max(d, detachedFor)
		if left := line.Entries[0].Left; left > want || left < want/2 || line.Entries[0].TTL != want {
			t.Errorf("extended by %v, and it has %v of %v left", d, left, line.Entries[0].TTL)
		}
		awaitLeases(t, server, 3)
	}
	attached := attach(t, other, as, store.Held)
	awaitLeases(t, server, 2)
	if status, err := s.Detach(t.Context(), c, heir(c).ID, detachedFor); err != nil || status.State != store.Gone {
		t.Errorf("Detach of a claim that is gone: %v and %v", status.State, err)
	}
	testkit.Leave(t, other, attached)
	testkit.CheckLength(t, s, "a", 0)
	awaitLeases(t, server, 2)
}

// A claim that waits is not detached: it would be taken for a held one. After that error no caller leaves it.
func TestWaitingIsNotDetached(t *testing.T) {
	t.Parallel()
	_, s := newServer(t, "")
	testkit.Held(t, s, claim("a"))
	waiter := testkit.Waiting(t, s, claim("a"))
	if status, err := s.Detach(t.Context(), waiter, heir(waiter).ID, detachedFor); !store.Final(err) {
		t.Errorf("Detach of a claim that waits: %v and %v", status.State, err)
	}
	testkit.Await(t, "it is deleted", func() bool { return testkit.Length(t, s, "a") == 1 })
	testkit.Keep(t, s, waiter, store.Gone)
}

// A Detach that etcd refuses for good leaves nothing: after a final error no caller leaves the claim.
func TestRefusedDetachLeavesNothing(t *testing.T) {
	t.Parallel()
	server, f, s := newFerry(t, etcdstore.DefaultTTL)
	c := testkit.Held(t, s, claim("a"))
	f.all(denied)
	if status, err := s.Detach(t.Context(), c, heir(c).ID, detachedFor); !store.Final(err) {
		t.Errorf("a refused Detach: %v and %v", status.State, err)
	}
	testkit.Await(t, "the claim is deleted", func() bool { return testkit.Length(t, s, "a") == 0 })
	awaitLeases(t, server, 1)
}

// The session of the client ends, and later the leader is killed. The detached claim stays, and is attached.
func TestDetachedSurvivesSessionAndLeader(t *testing.T) {
	t.Parallel()
	cluster := servers.EtcdCluster(t, 3)
	url := "etcd://" + strings.Join(cluster.Endpoints(), ",")
	s, other := openAt(t, url), openAt(t, url)
	c := testkit.Held(t, s, claim("a"))
	as := detach(t, s, c)
	testkit.Must(t, s.Close())
	leader, err := cluster.Leader()
	testkit.Must(t, err)
	testkit.Must(t, leader.Kill())
	try := claim("a")
	try.Try = true
	testkit.Join(t, other, &try, store.Gone)
	attached := attach(t, other, as, store.Held)
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
	as := detach(t, s, c)
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

package consulstore_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/consulstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

// detachedFor is how long claims are detached in these tests: until their end.
const detachedFor = 10 * time.Minute

// A detachTest is a server, and a client whose requests can be lost.
type detachTest struct {
	*testing.T
	server *servers.ConsulServer
	ferry  *ferry
	store  *consulstore.Store
}

func newDetachTest(t *testing.T) *detachTest {
	t.Helper()
	t.Parallel()
	server := servers.Consul(t)
	f, s := newFerry(t, server.Addr(), longTTL)
	return &detachTest{t, server, f, s}
}

// open opens another client.
func (d *detachTest) open() *consulstore.Store {
	d.Helper()
	s, err := consulstore.Open(d.Context(), []string{d.server.Addr()}, consulstore.WithTTL(longTTL))
	testkit.Must(d, err)
	d.Cleanup(func() { s.Close() })
	return s
}

// held returns a claim that is held by the client with the ferry.
func (d *detachTest) held(name string) store.Claim {
	d.Helper()
	return testkit.Held(d, d.store, testkit.Claim(name, longTTL))
}

// heirOf returns a claim like c with an ID of its own, for Detach and Attach.
func heirOf(c store.Claim) store.Claim {
	heir := testkit.Claim(c.Name, longTTL)
	heir.Demand = c.Demand
	return heir
}

// detachAs calls Detach, which must work, and returns the claim with its new ID.
func (d *detachTest) detachAs(s *consulstore.Store, c, as store.Claim) store.Claim {
	d.Helper()
	status, err := s.Detach(d.Context(), c, as.ID, detachedFor)
	if err != nil || status.State != store.Held || status.Ticket != c.Ticket {
		d.Fatalf("Detach of ticket %d: %v of ticket %d and %v", c.Ticket, status.State, status.Ticket, err)
	}
	as.Ticket = status.Ticket
	return as
}

// attachAs calls Attach, requires a state, and returns the claim with its ticket.
func (d *detachTest) attachAs(s *consulstore.Store, c, from store.Claim, want store.State) store.Claim {
	d.Helper()
	status, err := s.Attach(d.Context(), c, from.ID)
	if err != nil || status.State != want {
		d.Fatalf("Attach of %q: %v and %v, want %v", from.Name, status.State, err, want)
	}
	c.Ticket = status.Ticket
	return c
}

// mustFail calls a function whose response is lost.
func (d *detachTest) mustFail(what string, status store.Status, err error) {
	d.Helper()
	if err == nil || store.Final(err) {
		d.Fatalf("%s without a response: %v and %v", what, status.State, err)
	}
}

// awaitSessions waits until Consul has that many sessions.
func (d *detachTest) awaitSessions(want int) {
	d.Helper()
	var sessions []struct{ ID string }
	testkit.Await(d, "no session is left over", func() bool {
		testkit.Must(d, d.server.Call(d.Context(), http.MethodGet, "/v1/session/list?consistent", nil, &sessions))
		return len(sessions) == want
	})
}

// key returns the only key of a queue.
func (d *detachTest) key(name string) key {
	d.Helper()
	keys := keysUnder(d, d.server, consulstore.LineOf(name))
	if len(keys) != 1 {
		d.Fatalf("the queue has the keys %v", keys)
	}
	return keys[0]
}

// destroy ends a session as an operator does.
func (d *detachTest) destroy(session string) {
	d.Helper()
	testkit.Must(d, d.server.Call(d.Context(), http.MethodPut, "/v1/session/destroy/"+session, nil, nil))
}

// The caller of a Detach without a response leaves its new ID. The Detach arrives after that, and must be void: the
// claim would be in the queue for as long as it was to be detached. One that checks neither its epoch nor the key is
// seen.
func TestDetachLandsAfterItsLeave(t *testing.T) {
	t.Parallel()
	for name, unchecked := range map[string]bool{"store": false, "unchecked": true} {
		t.Run(name, func(t *testing.T) {
			d := newDetachTest(t)
			c := d.held("a")
			as := heirOf(c)
			d.ferry.strand(t, moves, func(ctx context.Context) error {
				_, err := d.store.Detach(ctx, c, as.ID, detachedFor)
				return err
			})
			if unchecked {
				if status := d.ferry.land(t, true); status != http.StatusOK {
					t.Fatalf("a late Detach without checks: %d", status)
				}
				testkit.Keep(t, d.store, c, store.Gone)
				testkit.CheckLength(t, d.store, "a", 1)
				return
			}
			testkit.Leave(t, d.store, as)
			if status := d.ferry.land(t, false); status != http.StatusConflict {
				t.Errorf("the late Detach got status %d", status)
			}
			testkit.Keep(t, d.store, c, store.Held)
			if status, err := d.store.Detach(t.Context(), c, as.ID, detachedFor); err != nil ||
				status.State != store.Gone {
				t.Errorf("Detach after the Leave of its new ID: %v and %v", status.State, err)
			}
			testkit.Leave(t, d.store, c)
			testkit.CheckLength(t, d.store, "a", 0)
			d.awaitSessions(1)
		})
	}
}

// The client's session ends while the Detach is on its way, and another one begins. The Leave of the new ID makes the
// request void all the same, and so does the end of the session.
func TestDetachLandsAfterItsSession(t *testing.T) {
	d := newDetachTest(t)
	c := d.held("a")
	as := heirOf(c)
	d.ferry.strand(t, moves, func(ctx context.Context) error {
		_, err := d.store.Detach(ctx, c, as.ID, detachedFor)
		return err
	})
	d.destroy(d.key("a").Session)
	testkit.Leave(t, d.store, as)
	if status := d.ferry.land(t, false); status != http.StatusConflict {
		t.Errorf("the late Detach got status %d", status)
	}
	testkit.CheckLength(t, d.store, "a", 0)
	testkit.Leave(t, d.store, d.held("a"))
	d.awaitSessions(1)
}

// A late Attach is void too: the detached claim stays as it was, and another client can attach it.
func TestAttachLandsAfterItsLeave(t *testing.T) {
	d := newDetachTest(t)
	other := d.open()
	c := testkit.Held(t, other, testkit.Claim("a", longTTL))
	as := d.detachAs(other, c, heirOf(c))
	late := heirOf(as)
	d.ferry.strand(t, moves, func(ctx context.Context) error {
		_, err := d.store.Attach(ctx, late, as.ID)
		return err
	})
	testkit.Leave(t, d.store, late)
	if status := d.ferry.land(t, false); status != http.StatusConflict {
		t.Errorf("the late Attach got status %d", status)
	}
	testkit.Leave(t, other, d.attachAs(other, heirOf(as), as, store.Held))
	testkit.CheckLength(t, d.store, "a", 0)
	d.awaitSessions(2)
}

// A caller whose response was lost repeats the call, or leaves both IDs. In the end no claim and no session is left,
// and a request that was on its way is void.
func TestResponseToDetachIsLost(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(d *detachTest, c, as store.Claim){
		"repeated": func(d *detachTest, c, as store.Claim) {
			as = d.detachAs(d.store, c, as)
			testkit.Leave(d, d.store, d.attachAs(d.store, heirOf(as), as, store.Held))
		},
		"left": func(d *detachTest, c, as store.Claim) {
			testkit.Leave(d, d.store, c)
			testkit.Leave(d, d.store, as)
		},
		"left in the other order": func(d *detachTest, c, as store.Claim) {
			testkit.Leave(d, d.store, as)
			testkit.Leave(d, d.store, c)
		},
		"kept and left": func(d *detachTest, c, as store.Claim) {
			testkit.Ask(d, d.store, c)
			testkit.Leave(d, d.store, as)
			testkit.Leave(d, d.store, c)
		},
	} {
		for lost, fate := range map[string]fate{"after": unanswered, "before": stranded} {
			t.Run(name+" "+lost, func(t *testing.T) {
				d := newDetachTest(t)
				c := d.held("a")
				as := heirOf(c)
				if fate == stranded {
					d.ferry.strand(t, moves, func(ctx context.Context) error {
						_, err := d.store.Detach(ctx, c, as.ID, detachedFor)
						return err
					})
				} else {
					d.ferry.decide(unanswered)
					status, err := d.store.Detach(t.Context(), c, as.ID, detachedFor)
					d.mustFail("Detach", status, err)
				}
				then(d, c, as)
				if fate == stranded && d.ferry.land(t, false) != http.StatusConflict {
					t.Error("a late transaction was carried out")
				}
				testkit.CheckLength(t, d.store, "a", 0)
				d.awaitSessions(1)
				testkit.Leave(t, d.store, d.held("a"))
			})
		}
	}
}

// A Detach is on its way, its caller repeats it, and the same client attaches the claim. All of that is in one epoch of
// one session, and the session that the first Detach moves the claim to still exists. When it arrives, it must not
// detach what was attached.
func TestDetachLandsAfterItsRepetition(t *testing.T) {
	d := newDetachTest(t)
	d.ferry.loses.Store(true)
	c := d.held("a")
	as := heirOf(c)
	d.ferry.strand(t, moves, func(ctx context.Context) error {
		_, err := d.store.Detach(ctx, c, as.ID, detachedFor)
		return err
	})
	as = d.detachAs(d.store, c, as)
	attached := d.attachAs(d.store, heirOf(as), as, store.Held)
	if status := d.ferry.land(t, false); status != http.StatusConflict {
		t.Errorf("the late Detach got status %d", status)
	}
	testkit.Keep(t, d.store, attached, store.Held)
}

// A Leave of a detached claim is on its way while another client attaches the claim. When it arrives, it must not touch
// the attached claim.
func TestLateLeaveSparesTheHeir(t *testing.T) {
	d := newDetachTest(t)
	other := d.open()
	c := d.held("a")
	as := d.detachAs(d.store, c, heirOf(c))
	d.ferry.strand(t, leaves, func(ctx context.Context) error { return d.store.Leave(ctx, as) })
	attached := d.attachAs(other, heirOf(as), as, store.Held)
	if status := d.ferry.land(t, false); status != http.StatusConflict {
		t.Errorf("the late Leave got status %d", status)
	}
	testkit.Keep(t, other, attached, store.Held)
}

// The response to an Attach is lost. It is repeated, or its claim is left.
func TestResponseToAttachIsLost(t *testing.T) {
	d := newDetachTest(t)
	for _, repeat := range []bool{true, false} {
		c := d.held("a")
		as := d.detachAs(d.store, c, heirOf(c))
		attached := heirOf(as)
		d.ferry.decide(unanswered)
		status, err := d.store.Attach(t.Context(), attached, as.ID)
		d.mustFail("Attach", status, err)
		if repeat {
			attached = d.attachAs(d.store, attached, as, store.Held)
			if attached.Ticket != c.Ticket {
				t.Errorf("the ticket was %d, and is %d", c.Ticket, attached.Ticket)
			}
			testkit.Keep(t, d.store, attached, store.Held)
		}
		testkit.Leave(t, d.store, attached)
		testkit.CheckLength(t, d.store, "a", 0)
		d.awaitSessions(1)
	}
}

// A Detach is carried out, its response is lost, and the claim is attached. Then the first client leaves what it
// believes to have. That must not touch the claim, which has the same key and the same ticket.
func TestLeaveOfEarlierIDSparesTheHeir(t *testing.T) {
	d := newDetachTest(t)
	for name, attaching := range map[string]*consulstore.Store{"another client": d.open(), "the same client": d.store} {
		t.Run(name, func(t *testing.T) {
			c := d.held(name)
			as := heirOf(c)
			d.ferry.decide(unanswered)
			status, err := d.store.Detach(t.Context(), c, as.ID, detachedFor)
			d.mustFail("Detach", status, err)
			attached := d.attachAs(attaching, heirOf(as), as, store.Held)
			testkit.Leave(t, d.store, c)
			testkit.Leave(t, d.store, as)
			testkit.Keep(t, d.store, c, store.Gone)
			testkit.Keep(t, attaching, attached, store.Held)
			testkit.Leave(t, attaching, attached)
			testkit.CheckLength(t, d.store, name, 0)
		})
	}
}

// The response to an Extend is lost, another client attaches the claim, and the caller of the Extend leaves it. That
// must not touch the attached claim.
func TestLeaveOfExtendedSparesTheHeir(t *testing.T) {
	d := newDetachTest(t)
	other := d.open()
	c := d.held("a")
	as := d.detachAs(d.store, c, heirOf(c))
	d.ferry.decide(unanswered)
	status, err := d.store.Detach(t.Context(), as, as.ID, detachedFor)
	d.mustFail("Detach", status, err)
	attached := d.attachAs(other, heirOf(as), as, store.Held)
	as.Ticket = 0
	testkit.Leave(t, d.store, as)
	testkit.Keep(t, other, attached, store.Held)
	testkit.Leave(t, other, attached)
	d.awaitSessions(2)
}

// A Keep that writes into the claim's key is on its way while the claim is detached. When it arrives, it must not give
// the key the earlier ID again.
func TestLateKeepSparesDetached(t *testing.T) {
	d := newDetachTest(t)
	c := d.held("a")
	d.ferry.strand(t, writes, func(ctx context.Context) error {
		news := c
		news.Turn++
		_, err := d.store.Keep(ctx, []store.Claim{news})
		return err
	})
	as := d.detachAs(d.store, c, heirOf(c))
	if status := d.ferry.land(t, false); status != http.StatusConflict {
		t.Errorf("the late Keep got status %d", status)
	}
	testkit.Keep(t, d.store, c, store.Gone)
	attached := d.attachAs(d.store, heirOf(as), as, store.Held)
	news := attached
	news.Turn++
	testkit.Keep(t, d.store, news, store.Held)
	line, err := d.store.Queue(t.Context(), "a")
	testkit.Must(t, err)
	if e := line.Entries[0]; e.ID != attached.ID || e.Turn != news.Turn {
		t.Errorf("the queue has %v in turn %d, want %v in turn %d", e.ID, e.Turn, attached.ID, news.Turn)
	}
}

// Each Detach of a claim that is detached already, and the Attach, moves the key to another session, and ends the one
// before. So do Leave and Break. A Detach that finds no claim leaves no session.
func TestSessionsOfDetached(t *testing.T) {
	d := newDetachTest(t)
	other := d.open()
	c := d.held("a")
	as := d.detachAs(d.store, c, heirOf(c))
	for range 2 {
		d.detachAs(other, as, as)
		d.awaitSessions(3)
	}
	line, err := d.store.Queue(t.Context(), "a")
	testkit.Must(t, err)
	if e := line.Entries[0]; e.TTL != detachedFor || e.Left > detachedFor || e.ID != as.ID || e.State != store.Held {
		t.Errorf("detached for %v, and the queue has %+v", detachedFor, e)
	}
	attached := d.attachAs(other, heirOf(as), as, store.Held)
	d.awaitSessions(2)
	status, err := d.store.Detach(t.Context(), c, heirOf(c).ID, detachedFor)
	if err != nil || status.State != store.Gone {
		t.Errorf("Detach of a claim that is gone: %v and %v", status.State, err)
	}
	as = d.detachAs(other, attached, heirOf(attached))
	testkit.Must(t, d.store.Break(t.Context(), "a", as.Ticket))
	d.awaitSessions(2)
	c = d.held("a")
	as = d.detachAs(d.store, c, heirOf(c))
	testkit.Leave(t, other, as)
	testkit.CheckLength(t, d.store, "a", 0)
	d.awaitSessions(2)
}

// A claim that waits is not detached: it would be taken for a held one. After that error no caller leaves it.
func TestWaitingIsNotDetached(t *testing.T) {
	d := newDetachTest(t)
	d.held("a")
	waiter := testkit.Waiting(t, d.store, testkit.Claim("a", longTTL))
	if status, err := d.store.Detach(t.Context(), waiter, heirOf(waiter).ID, detachedFor); !store.Final(err) {
		t.Errorf("Detach of a claim that waits: %v and %v", status.State, err)
	}
	testkit.Await(t, "it is deleted", func() bool { return testkit.Length(t, d.store, "a") == 1 })
	testkit.Keep(t, d.store, waiter, store.Gone)
}

// A Detach that Consul refuses for good leaves nothing: after a final error no caller leaves the claim. An Extend that
// it refuses leaves the detached claim as it was.
func TestRefusedDetach(t *testing.T) {
	d := newDetachTest(t)
	c := d.held("a")
	d.ferry.decide(denied)
	if status, err := d.store.Detach(t.Context(), c, heirOf(c).ID, detachedFor); !store.Final(err) {
		t.Errorf("a refused Detach: %v and %v", status.State, err)
	}
	testkit.Await(t, "the claim is deleted", func() bool { return testkit.Length(t, d.store, "a") == 0 })
	d.awaitSessions(1)
	c = d.held("a")
	as := d.detachAs(d.store, c, heirOf(c))
	d.ferry.decide(denied)
	if status, err := d.store.Detach(t.Context(), as, as.ID, detachedFor); !store.Final(err) {
		t.Errorf("a refused Detach: %v and %v", status.State, err)
	}
	d.awaitSessions(2)
	d.attachAs(d.store, heirOf(as), as, store.Held)
}

// An operator destroys the session of a detached claim. The next waiter is granted the lock, and the claim is gone for
// those that would attach or extend it.
func TestSessionOfDetachedDestroyed(t *testing.T) {
	d := newDetachTest(t)
	c := d.held("a")
	own := d.key("a").Session
	as := d.detachAs(d.store, c, heirOf(c))
	session := d.key("a").Session
	if session == own {
		t.Fatal("the detached claim has the session of its client")
	}
	other := d.open()
	waiter := testkit.Waiting(t, other, testkit.Claim("a", longTTL))
	d.destroy(session)
	testkit.AwaitHeld(t, other, waiter)
	d.attachAs(d.store, heirOf(as), as, store.Gone)
	if status, err := d.store.Detach(t.Context(), as, as.ID, detachedFor); err != nil || status.State != store.Gone {
		t.Errorf("Detach of a claim whose session was destroyed: %v and %v", status.State, err)
	}
	testkit.Leave(t, d.store, as)
	testkit.Keep(t, other, waiter, store.Held)
}

// A claim is detached and attached many times, while others look at its key and wait behind it. At no time is the key
// missing or unlocked, it keeps its create index, and no waiter is granted.
func TestMoveIsOneStep(t *testing.T) {
	d := newDetachTest(t)
	other := d.open()
	c := d.held("a")
	ticket := c.Ticket
	waiter := testkit.Waiting(t, other, testkit.Claim("a", longTTL))
	told := testkit.Listen(other)
	ctx, cancel := context.WithCancel(t.Context())
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		for ctx.Err() == nil {
			keys := keysUnder(t, d.server, consulstore.LineOf("a"))
			if len(keys) != 2 || keys[0].Session == "" || keys[0].CreateIndex != ticket {
				t.Errorf("the queue of ticket %d has the keys %+v", ticket, keys)
				return
			}
		}
	}()
	for range 20 {
		as := d.detachAs(d.store, c, heirOf(c))
		c = d.attachAs(d.store, heirOf(as), as, store.Held)
	}
	testkit.Keep(t, d.store, c, store.Held)
	testkit.Keep(t, other, waiter, store.Waiting)
	cancel()
	<-looked
	select {
	case id := <-told:
		t.Errorf("%v was told of something", id)
	default:
	}
	testkit.Leave(t, d.store, c)
	testkit.AwaitHeld(t, other, waiter)
	d.awaitSessions(2)
}

// The session of the client ends, and then the leader is killed. The detached claim stays, and is attached.
func TestDetachedSurvivesSessionAndLeader(t *testing.T) {
	t.Parallel()
	cluster := servers.ConsulCluster(t, 3)
	raw := "consul://" + strings.Join(cluster.Endpoints(), ",") + shortTTL
	s, other := testkit.Open(t, raw), testkit.Open(t, raw)
	c := testkit.Held(t, s, testkit.Claim("a", longTTL))
	as := heirOf(c)
	testkit.Detach(t, s, c, as.ID)
	testkit.Must(t, s.Close())
	leader, err := cluster.Leader()
	testkit.Must(t, err)
	testkit.Must(t, leader.Kill())
	heir := heirOf(as)
	testkit.Await(t, "the claim is attached", func() bool {
		status, err := other.(store.Detacher).Attach(t.Context(), heir, as.ID)
		if err == nil && (status.State != store.Held || status.Ticket != c.Ticket) {
			t.Fatalf("Attach of ticket %d: %v of ticket %d", c.Ticket, status.State, status.Ticket)
		}
		return err == nil
	})
	testkit.AwaitHeld(t, other, heir)
}

// A client of the version before claims could be detached reads them as any other, with its decoder: the format is
// still "1", the demand comes next, the ID is that of the key, and the rest is a record in JSON.
func TestEarlierVersionReadsDetached(t *testing.T) {
	d := newDetachTest(t)
	c := d.held("a")
	as := d.detachAs(d.store, c, heirOf(c))
	var read []struct{ Value []byte }
	k := d.key("a")
	testkit.Must(t, d.server.Call(t.Context(), http.MethodGet, "/v1/kv/"+k.Key, nil, &read))
	words := strings.SplitN(string(read[0].Value), " ", 3)
	demand, ok := sessionqueue.DecodeDemand(words[1])
	if words[0] != "1" || !ok || demand != c.Demand || !strings.HasPrefix(words[2], "{") {
		t.Errorf("the value is %s", read[0].Value)
	}
	if k.Key != consulstore.KeyOf("a", c.ID) || k.CreateIndex != c.Ticket || as.Ticket != c.Ticket {
		t.Errorf("ticket %d is the key %+v", c.Ticket, k)
	}
}

// In plain mode a lock cannot be detached, and stays as it was.
func TestPlainIsNotDetached(t *testing.T) {
	t.Parallel()
	s := testkit.Open(t, "consul://"+servers.Consul(t).Addr()+shortTTL+"&mode=plain")
	if s.Abilities().Detach {
		t.Error("it says that locks can be detached")
	}
	c := testkit.Held(t, s, testkit.Claim("a", longTTL))
	_, detached := s.(store.Detacher).Detach(t.Context(), c, heirOf(c).ID, detachedFor)
	_, attached := s.(store.Detacher).Attach(t.Context(), heirOf(c), c.ID)
	for _, err := range []error{detached, attached} {
		if !errors.Is(err, store.ErrUnsupported) {
			t.Errorf("%v, want %v", err, store.ErrUnsupported)
		}
	}
	testkit.Keep(t, s, c, store.Held)
}

package consulstore_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/consulstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

// A detachTest is testkit's, with a ferry as the way to the server.
type detachTest struct {
	*testkit.DetachTest
	server *servers.ConsulServer
	ferry  *ferry
}

func newDetachTest(t *testing.T) *detachTest {
	t.Helper()
	t.Parallel()
	server := servers.Consul(t)
	f, s := newFerry(t, server.Addr(), longTTL)
	d := &testkit.DetachTest{T: t, Store: s, TTL: longTTL}
	d.Open = func() testkit.DetachStore { return openAt(t, longTTL, server.Addr()) }
	d.Send = func(to testkit.Fate, call func(context.Context) error) error {
		if to == testkit.Stranded {
			return f.strand(t, moves, call)
		}
		f.decide(map[testkit.Fate]fate{testkit.Unanswered: unanswered, testkit.Denied: denied}[to])
		return call(t.Context())
	}
	d.Land = func() bool { return f.land(t, false) != http.StatusConflict }
	d.AwaitSessions = func(n int) {
		var sessions []struct{ ID string }
		testkit.Await(t, "no session is left over", func() bool {
			testkit.Must(t, server.Call(t.Context(), http.MethodGet, "/v1/session/list?consistent", nil, &sessions))
			return len(sessions) == n
		})
	}
	return &detachTest{d, server, f}
}

// strand makes a call whose transaction with these operations is stranded.
func (d *detachTest) strand(verbs []string, call func(context.Context) error) {
	d.Helper()
	if err := d.ferry.strand(d, verbs, call); err == nil || store.Final(err) {
		d.Fatalf("a call without a response: %v", err)
	}
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

func TestDetachLandsAfterItsLeave(t *testing.T) { newDetachTest(t).TestDetachLandsAfterItsLeave() }

// A late Detach that checks neither its epoch nor the key is carried out, and that is seen.
func TestUncheckedDetachIsSeen(t *testing.T) {
	d := newDetachTest(t)
	c := d.Held("a")
	d.FailToDetach(testkit.Stranded, c, testkit.Heir(c))
	if status := d.ferry.land(t, true); status != http.StatusOK {
		t.Fatalf("a late Detach without checks: %d", status)
	}
	testkit.Keep(t, d.Store, c, store.Gone)
	testkit.CheckLength(t, d.Store, "a", 1)
}

// The client's session ends while the Detach is on its way, and another one begins. The Leave of the new ID makes the
// request void all the same, and so does the end of the session.
func TestDetachLandsAfterItsSession(t *testing.T) {
	d := newDetachTest(t)
	c := d.Held("a")
	as := testkit.Heir(c)
	d.FailToDetach(testkit.Stranded, c, as)
	d.destroy(d.key("a").Session)
	testkit.Leave(t, d.Store, as)
	d.MustBeVoid()
	testkit.CheckLength(t, d.Store, "a", 0)
	testkit.Leave(t, d.Store, d.Held("a"))
	d.AwaitSessions(1)
}

func TestAttachLandsAfterItsLeave(t *testing.T) { newDetachTest(t).TestAttachLandsAfterItsLeave() }

func TestResponseToDetachIsLost(t *testing.T) {
	t.Parallel()
	testkit.TestResponseToDetachIsLost(t, func(t *testing.T) *testkit.DetachTest { return newDetachTest(t).DetachTest })
}

// A Detach is on its way, its caller repeats it, and the same client attaches the claim. All of that is in one epoch of
// one session, and the session that the first Detach moves the claim to still exists. When it arrives, it must not
// detach what was attached.
func TestDetachLandsAfterItsRepetition(t *testing.T) {
	d := newDetachTest(t)
	d.ferry.loses.Store(true)
	c := d.Held("a")
	as := testkit.Heir(c)
	d.FailToDetach(testkit.Stranded, c, as)
	as = testkit.DetachedAs(t, d.Store, c, as, testkit.DetachedFor)
	attached := testkit.Attached(t, d.Store, as)
	d.MustBeVoid()
	testkit.Keep(t, d.Store, attached, store.Held)
}

// A Leave of a detached claim is on its way while another client attaches the claim. When it arrives, it must not touch
// the attached claim.
func TestLateLeaveSparesTheHeir(t *testing.T) {
	d := newDetachTest(t)
	other := d.Open()
	c := d.Held("a")
	as := testkit.Detached(t, d.Store, c)
	d.strand(leaves, func(ctx context.Context) error { return d.Store.Leave(ctx, as) })
	attached := testkit.Attached(t, other, as)
	d.MustBeVoid()
	testkit.Keep(t, other, attached, store.Held)
}

func TestResponseToAttachIsLost(t *testing.T) { newDetachTest(t).TestResponseToAttachIsLost() }

func TestLeaveOfEarlierIDSparesTheHeir(t *testing.T) { newDetachTest(t).TestLeaveOfEarlierID() }

// The response to an Extend is lost, another client attaches the claim, and the caller of the Extend leaves it. That
// must not touch the attached claim.
func TestLeaveOfExtendedSparesTheHeir(t *testing.T) {
	d := newDetachTest(t)
	other := d.Open()
	c := d.Held("a")
	as := testkit.Detached(t, d.Store, c)
	d.FailToDetach(testkit.Unanswered, as, as)
	attached := testkit.Attached(t, other, as)
	as.Ticket = 0
	testkit.Leave(t, d.Store, as)
	testkit.Keep(t, other, attached, store.Held)
	testkit.Leave(t, other, attached)
	d.AwaitSessions(2)
}

// A Keep that writes into the claim's key is on its way while the claim is detached. When it arrives, it must not give
// the key the earlier ID again.
func TestLateKeepSparesDetached(t *testing.T) {
	d := newDetachTest(t)
	c := d.Held("a")
	d.strand(writes, func(ctx context.Context) error {
		news := c
		news.Turn++
		_, err := d.Store.Keep(ctx, []store.Claim{news})
		return err
	})
	as := testkit.Detached(t, d.Store, c)
	d.MustBeVoid()
	testkit.Keep(t, d.Store, c, store.Gone)
	attached := testkit.Attached(t, d.Store, as)
	news := attached
	news.Turn++
	testkit.Keep(t, d.Store, news, store.Held)
	line, err := d.Store.Queue(t.Context(), "a")
	testkit.Must(t, err)
	if e := line.Entries[0]; e.ID != attached.ID || e.Turn != news.Turn {
		t.Errorf("the queue has %v in turn %d, want %v in turn %d", e.ID, e.Turn, attached.ID, news.Turn)
	}
}

// Each Detach of a claim that is detached already, and the Attach, moves the key to another session, and ends the one
// before. So do Leave and Break. A Detach that finds no claim leaves no session.
func TestSessionsOfDetached(t *testing.T) {
	d := newDetachTest(t)
	other := d.Open()
	c := d.Held("a")
	as := testkit.Detached(t, d.Store, c)
	for range 2 {
		testkit.DetachedAs(t, other, as, as, testkit.DetachedFor)
		d.AwaitSessions(3)
	}
	line, err := d.Store.Queue(t.Context(), "a")
	testkit.Must(t, err)
	if e := line.Entries[0]; e.TTL != testkit.DetachedFor || e.Left > testkit.DetachedFor || e.ID != as.ID ||
		e.State != store.Held {
		t.Errorf("detached for %v, and the queue has %+v", testkit.DetachedFor, e)
	}
	attached := testkit.Attached(t, other, as)
	d.AwaitSessions(2)
	status, err := d.Store.Detach(t.Context(), c, testkit.Heir(c).ID, testkit.DetachedFor)
	if err != nil || status.State != store.Gone {
		t.Errorf("Detach of a claim that is gone: %v and %v", status.State, err)
	}
	as = testkit.Detached(t, other, attached)
	testkit.Must(t, d.Store.Break(t.Context(), "a", as.Ticket))
	d.AwaitSessions(2)
	c = d.Held("a")
	as = testkit.Detached(t, d.Store, c)
	testkit.Leave(t, other, as)
	testkit.CheckLength(t, d.Store, "a", 0)
	d.AwaitSessions(2)
}

func TestWaitingIsNotDetached(t *testing.T) { newDetachTest(t).TestWaitingIsNotDetached() }

func TestRefusedDetach(t *testing.T) { newDetachTest(t).TestRefusedDetach() }

// An operator destroys the session of a detached claim. The next waiter is granted the lock, and the claim is gone for
// those that would attach or extend it.
func TestSessionOfDetachedDestroyed(t *testing.T) {
	d := newDetachTest(t)
	c := d.Held("a")
	own := d.key("a").Session
	as := testkit.Detached(t, d.Store, c)
	session := d.key("a").Session
	if session == own {
		t.Fatal("the detached claim has the session of its client")
	}
	other := d.Open()
	waiter := testkit.Waiting(t, other, testkit.Claim("a", longTTL))
	d.destroy(session)
	testkit.AwaitHeld(t, other, waiter)
	if status, err := d.Store.Attach(t.Context(), testkit.Heir(as), as.ID); err != nil || status.State != store.Gone {
		t.Errorf("Attach: %v and %v", status.State, err)
	}
	status, err := d.Store.Detach(t.Context(), as, as.ID, testkit.DetachedFor)
	if err != nil || status.State != store.Gone {
		t.Errorf("Detach of a claim whose session was destroyed: %v and %v", status.State, err)
	}
	testkit.Leave(t, d.Store, as)
	testkit.Keep(t, other, waiter, store.Held)
}

// A claim is detached and attached many times, while others look at its key and wait behind it. At no time is the key
// missing or unlocked, it keeps its create index, and no waiter is granted.
func TestMoveIsOneStep(t *testing.T) {
	d := newDetachTest(t)
	other := d.Open()
	c := d.Held("a")
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
		as := testkit.Detached(t, d.Store, c)
		c = testkit.Attached(t, d.Store, as)
	}
	testkit.Keep(t, d.Store, c, store.Held)
	testkit.Keep(t, other, waiter, store.Waiting)
	cancel()
	<-looked
	select {
	case id := <-told:
		t.Errorf("%v was told of something", id)
	default:
	}
	testkit.Leave(t, d.Store, c)
	testkit.AwaitHeld(t, other, waiter)
	d.AwaitSessions(2)
}

// The session of the client ends, and then the leader is killed. The detached claim stays, and is attached.
func TestDetachedSurvivesSessionAndLeader(t *testing.T) {
	t.Parallel()
	cluster := servers.ConsulCluster(t, 3)
	raw := "consul://" + strings.Join(cluster.Endpoints(), ",") + shortTTL
	s, other := testkit.Open(t, raw), testkit.Open(t, raw)
	c := testkit.Held(t, s, testkit.Claim("a", longTTL))
	as := testkit.Heir(c)
	testkit.Detach(t, s, c, as.ID)
	testkit.Must(t, s.Close())
	leader, err := cluster.Leader()
	testkit.Must(t, err)
	testkit.Must(t, leader.Kill())
	heir := testkit.Heir(as)
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
	c := d.Held("a")
	as := testkit.Detached(t, d.Store, c)
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
	_, detached := s.(store.Detacher).Detach(t.Context(), c, testkit.Heir(c).ID, testkit.DetachedFor)
	_, attached := s.(store.Detacher).Attach(t.Context(), testkit.Heir(c), c.ID)
	for _, err := range []error{detached, attached} {
		if !errors.Is(err, store.ErrUnsupported) {
			t.Errorf("%v, want %v", err, store.ErrUnsupported)
		}
	}
	testkit.Keep(t, s, c, store.Held)
}

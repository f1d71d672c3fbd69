package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// heirOf returns a claim like c with an ID of its own.
func heirOf(c store.Claim) store.Claim {
	heir := claim(c.Name)
	heir.Demand, heir.TTL, heir.Ticket = c.Demand, c.TTL, c.Ticket
	return heir
}

// detach detaches a claim that is held, for d, and returns it with its new ID.
func detach(t testing.TB, s *redisstore.Store, c store.Claim, d time.Duration) store.Claim {
	t.Helper()
	as := c
	as.ID = heirOf(c).ID
	status, err := s.Detach(t.Context(), c, as.ID, d)
	if err != nil || status.State != store.Held || status.Ticket != c.Ticket {
		t.Fatalf("Detach of %q: %+v and %v", c.Name, status, err)
	}
	return as
}

// attach attaches a detached claim as c, and checks the state.
func attach(t testing.TB, s *redisstore.Store, c store.Claim, from store.ID, want store.State) {
	t.Helper()
	status, err := s.Attach(t.Context(), c, from)
	if err != nil || status.State != want || want == store.Held && status.Ticket != c.Ticket {
		t.Fatalf("Attach of %q: %+v and %v, want %v of ticket %d", c.Name, status, err, want, c.Ticket)
	}
}

// The keys of a queue expire with its last claim: a detached one takes them along, to a later time and back to an
// earlier one, although no client comes back to the queue.
func TestKeysExpireWithDetachedClaim(t *testing.T) {
	t.Parallel()
	server, s := newServer(t, "")
	const long = 7 * 24 * time.Hour
	for name, others := range map[string]int{"alone": 0, "with a waiter": 1} {
		holder := testkit.Held(t, s, claim(name))
		for range others {
			testkit.Waiting(t, s, claim(name))
		}
		check := func(what string, least, most time.Duration) {
			t.Helper()
			for _, key := range redisstore.KeysOf("", name)[:1+3*others] {
				left := time.Duration(number(t, do(t, server, "PTTL", key))) * time.Millisecond
				if left < least || left > most {
					t.Errorf("%s %s: the key %s expires in %v, want %v to %v", name, what, key, left, least, most)
				}
			}
		}
		as := detach(t, s, holder, long)
		check("detached for long", long-ttl, long+time.Second)
		again, err := s.Detach(t.Context(), as, as.ID, ttl)
		if err != nil || again.State != store.Held {
			t.Fatal(again, err)
		}
		check("extended by less", long-ttl, long+time.Second)
		as = detach(t, s, as, ttl)
		check("detached for less", ttl/2, ttl+time.Second)
		detach(t, s, as, long)
		entry, err := s.Queue(t.Context(), name)
		testkit.Must(t, err)
		if got := entry.Entries[0]; got.TTL != long || got.Owner.Label != "test" || got.State != store.Held {
			t.Errorf("%s: the queue shows %+v of %+v", name, got, got.Owner)
		}
		heir := heirOf(holder)
		attach(t, s, heir, entry.Entries[0].ID, store.Held)
		check("attached", ttl/2, ttl+time.Second)
	}
}

// What is detached and attached is renewed the quick way by its new client, and pushes about it go there.
func TestAttachedClaimBelongsToItsClient(t *testing.T) {
	server, a := newServer(t, "")
	b := openAt(t, "redis://"+server.Addr())
	told := testkit.Listen(b)
	as := detach(t, a, testkit.Held(t, a, claim("heir")), ttl)
	heir := heirOf(as)
	attach(t, b, heir, as.ID, store.Held)
	testkit.Keep(t, b, heir, store.Held) // the server knows the script now
	before := calls(t, server, "")
	testkit.Keep(t, b, heir, store.Held)
	if n := calls(t, server, "") - before; n > 5 { // EVALSHA, TIME, GET of the run, GET, PEXPIRE
		t.Errorf("a renewal of an attached claim is %d commands", n)
	}
	testkit.Must(t, a.Break(t.Context(), heir.Name, heir.Ticket))
	testkit.AwaitTold(t, told, heir.ID, "the new client is told that its claim was broken")
}

// A claim that the store has as waiting, although its client believes that it holds, is not detached, and is over.
func TestWaitingClaimIsNotDetached(t *testing.T) {
	_, s := newServer(t, "")
	holder, waiter := testkit.Held(t, s, claim("waiting")), testkit.Waiting(t, s, claim("waiting"))
	for _, from := range []store.Claim{waiter, claim("waiting")} {
		status, err := s.Detach(t.Context(), from, heirOf(from).ID, ttl)
		if err != nil || status.State != store.Gone {
			t.Errorf("Detach of a claim that is not held: %+v and %v", status, err)
		}
	}
	testkit.Keep(t, s, waiter, store.Gone)
	another := testkit.Waiting(t, s, claim("waiting"))
	attach(t, s, heirOf(another), another.ID, store.Gone)
	testkit.Keep(t, s, another, store.Waiting)
	testkit.Keep(t, s, holder, store.Held)
}

// A server that is full detaches and attaches: neither takes more memory than there was.
func TestFullServerDetaches(t *testing.T) {
	for _, query := range []string{"", "?mode=plain"} {
		server, s := newServer(t, query)
		alone, holder := testkit.Held(t, s, claim("alone")), testkit.Held(t, s, claim("full"))
		if query == "" {
			testkit.Waiting(t, s, claim("full"))
		}
		do(t, server, "CONFIG", "SET", "maxmemory", "1")
		for _, c := range []store.Claim{alone, holder} {
			as := detach(t, s, c, ttl)
			_, err := s.Detach(t.Context(), as, as.ID, 2*ttl)
			testkit.Must(t, err)
			heir := heirOf(c)
			attach(t, s, heir, as.ID, store.Held)
			testkit.Keep(t, s, heir, store.Held)
			testkit.Leave(t, s, heir)
		}
	}
}

// Detach and Attach need no permission beyond the smallest.
func TestSmallestACLDetaches(t *testing.T) {
	server := servers.Redis(t, servers.ACL("user default off", smallestACL("")))
	s := openAt(t, "redis://me:secret@"+server.Addr())
	testkit.Held(t, s, claim("warm"))
	holder := testkit.Held(t, s, claim("acl"))
	testkit.Waiting(t, s, claim("acl"))
	as := detach(t, s, holder, ttl)
	attach(t, s, heirOf(as), as.ID, store.Held)
}

// A restart may have lost that another client attached a claim. So none attaches it while the startup delay lasts; what
// is held stays held, and can be detached.
func TestStartupDelayCoversAttach(t *testing.T) {
	t.Parallel()
	server, s := newServer(t, "?startup-delay=4s")
	holder, free := testkit.Waiting(t, s, claim("guarded")), testkit.Waiting(t, s, claim("guarded too"))
	testkit.AwaitHeld(t, s, holder)
	testkit.AwaitHeld(t, s, free)
	as := detach(t, s, holder, ttl)
	heir := heirOf(as)
	attach(t, s, heir, as.ID, store.Held)
	as = detach(t, s, free, ttl)
	testkit.Must(t, server.Restart(true))
	reach(t, s)
	attach(t, s, heir, holder.ID, store.Held) // it is kept, which grants nothing
	_, err := s.Attach(t.Context(), heirOf(as), as.ID)
	checkFault(t, err, false, "nothing is granted for another")
	detach(t, s, heir, ttl)
	testkit.Await(t, "it is attached when the delay is over", func() bool {
		status, err := s.Attach(t.Context(), heirOf(as), as.ID)
		return err == nil && status.State == store.Held
	})
}

// A Detach or an Attach that replicas have not acknowledged is an error, and what its caller then leaves is free.
func TestUnacknowledgedTransferIsNone(t *testing.T) {
	t.Parallel()
	r := servers.RedisReplicas(t, 1)
	acknowledged(t, r.Master, 1)
	for name, mode := range map[string]string{"queue": "", "plain": "&mode=plain"} {
		s := openAt(t, "redis://"+r.Master.Addr()+"?wait-replicas=1&wait-timeout=2s"+mode)
		s.Notify(func(store.ID, store.Status) {})
		holder := testkit.Held(t, s, claim(name))
		as := heirOf(holder)
		testkit.Must(t, r.Replicas[0].Lag())
		_, err := s.Detach(t.Context(), holder, as.ID, ttl)
		testkit.CheckFault(t, err, false, "0 of 1 replicas")
		testkit.Must(t, r.Replicas[0].CatchUp())
		acknowledged(t, r.Master, 1)
		as.Ticket = 0
		testkit.Leave(t, s, holder)
		testkit.Leave(t, s, as)
		testkit.CheckLength(t, s, name, 0)

		next := testkit.Held(t, s, claim(name))
		as = detach(t, s, next, ttl)
		heir := heirOf(as)
		testkit.Must(t, r.Replicas[0].Lag())
		_, err = s.Attach(t.Context(), heir, as.ID)
		testkit.CheckFault(t, err, false, "0 of 1 replicas")
		testkit.Must(t, r.Replicas[0].CatchUp())
		acknowledged(t, r.Master, 1)
		heir.Ticket = 0
		testkit.Leave(t, s, heir)
		testkit.CheckLength(t, s, name, 0)
	}
}

// The master dies before its replica knows that a claim was attached. Another client attaches it at the new master: two
// clients hold the same ticket, which no fence tells apart, until the first one's next renewal. Where replicas are
// waited for, the new master knows.
func TestAttachThroughFailover(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		query string
		lag   bool
		want  store.State
	}{
		"not replicated":    {"", true, store.Held},
		"replicated":        {"", false, store.Gone},
		"with WaitReplicas": {"?wait-replicas=1", false, store.Gone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := servers.RedisReplicas(t, 1)
			acknowledged(t, r.Master, 1)
			s := openAt(t, "redis://"+r.Master.Addr()+test.query)
			as := detach(t, s, testkit.Held(t, s, claim("passed on")), ttl)
			acknowledged(t, r.Master, 1)
			if test.lag {
				testkit.Must(t, r.Replicas[0].Lag())
			}
			first := heirOf(as)
			attach(t, s, first, as.ID, store.Held)
			if !test.lag && test.query == "" {
				acknowledged(t, r.Master, 1)
			}
			testkit.Must(t, r.Master.Kill())
			testkit.Must(t, r.Promote(0))
			s = openAt(t, "redis://"+r.Master.Addr())
			attach(t, s, heirOf(as), as.ID, test.want)
			if test.lag {
				testkit.Keep(t, s, first, store.Gone)
			} else {
				testkit.Keep(t, s, first, store.Held)
			}
		})
	}
}

// The master dies before its replica knows that a claim was detached, which is lost like a grant: at the new master it
// lasts as long as its holder's last renewal, and no longer.
func TestDetachLostByFailover(t *testing.T) {
	t.Parallel()
	r := servers.RedisReplicas(t, 1)
	acknowledged(t, r.Master, 1)
	s := openAt(t, "redis://"+r.Master.Addr())
	holder := claim("lost")
	holder.TTL = 3 * time.Second
	testkit.Join(t, s, &holder, store.Held)
	acknowledged(t, r.Master, 1)
	testkit.Must(t, r.Replicas[0].Lag())
	as := detach(t, s, holder, ttl)
	testkit.Must(t, r.Master.Kill())
	testkit.Must(t, r.Promote(0))
	s = openAt(t, "redis://"+r.Master.Addr())
	attach(t, s, heirOf(as), as.ID, store.Gone)
	testkit.Await(t, "another acquires the lock", func() bool {
		c := claim("lost")
		c.Try = true
		status, err := s.Join(t.Context(), c)
		return err == nil && status.State == store.Held && status.Ticket > holder.Ticket
	})
}

// While a slot is moved, with its keys at two nodes, a claim is neither detached nor attached in part.
func TestSlotIsMovedWhileDetaching(t *testing.T) {
	t.Parallel()
	c := servers.RedisCluster(t)
	s := openAt(t, clusterURL(c))
	const name = "moved"
	key := redisstore.KeysOf("", name)[0]
	current, waiter := testkit.Held(t, s, claim(name)), testkit.Waiting(t, s, claim(name))
	for range 2 { // there and back again
		as, moved := heirOf(current), 0
		err := moveSlot(c, key, func(int) {
			moved++
			short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			status, err := s.Detach(short, current, as.ID, ttl)
			if err == nil && (status.State != store.Held || moved > 2) { // the mark may be the first that moves
				t.Errorf("Detach when %d keys were moved: %+v", moved-1, status)
			}
		})
		testkit.Must(t, err)
		if moved < 5 {
			t.Errorf("%d keys were moved, want those of the line, the mark and the run", moved-1)
		}
		status, err := s.Detach(t.Context(), current, as.ID, ttl)
		if err != nil || status.State != store.Held || status.Ticket != current.Ticket {
			t.Fatalf("Detach when all keys were moved: %+v and %v", status, err)
		}
		testkit.Keep(t, s, current, store.Gone)
		current = heirOf(as)
		attach(t, s, current, as.ID, store.Held)
		testkit.Keep(t, s, waiter, store.Waiting)
		testkit.CheckLength(t, s, name, 2)
	}
	testkit.Leave(t, s, current)
	testkit.Keep(t, s, waiter, store.Held)
}

// In plain mode the value changes with the claim, and keeps its ticket and since when it is held. Another library is
// excluded as before, and what it holds is left alone.
func TestPlainDetach(t *testing.T) {
	server := servers.Redis(t)
	a, b := openPlain(t, server, ""), openPlain(t, server, "")
	holder := testkit.Held(t, a, claim("plain"))
	value := func(c store.Claim) string {
		return strings.TrimPrefix(do(t, server, "GET", "plain"), "holdfast "+c.ID.String())
	}
	before := value(holder)
	as := detach(t, a, holder, 2*ttl)
	if got := value(as); got != before {
		t.Errorf("the value is %q behind the ID, and was %q", got, before)
	}
	if left := number(t, do(t, server, "PTTL", "plain")); left <= ttl.Milliseconds() {
		t.Errorf("it has %d ms left", left)
	}
	if got := do(t, server, "SET", "plain", "another's", "NX", "PX", "1000"); got != "<nil>" {
		t.Errorf("another library has acquired a detached lock: %s", got)
	}
	heir := heirOf(as)
	heir.Owner = &store.Owner{Label: "heir"}
	attach(t, b, heir, as.ID, store.Held)
	if got, want := value(heir), strings.Replace(before, `"test"`, `"heir"`, 1); got != want {
		t.Errorf("the value is %q behind the ID, want %q", got, want)
	}
	testkit.Keep(t, b, heir, store.Held)
	testkit.Keep(t, a, holder, store.Gone)

	do(t, server, "SET", "plain", "another's", "PX", "60000")
	if status, err := b.Detach(t.Context(), heir, as.ID, ttl); err != nil || status.State != store.Gone {
		t.Errorf("Detach of what another library holds: %+v and %v", status, err)
	}
	attach(t, b, heirOf(as), as.ID, store.Gone)
	if got := do(t, server, "GET", "plain"); got != "another's" {
		t.Errorf("the value of another library became %q", got)
	}
}

// A try of the holder that had no response may be carried out after the lock was detached and released. It must not
// acquire the lock for a claim that no client knows any more.
func TestPlainLateTryAfterDetach(t *testing.T) {
	server := servers.Redis(t)
	s, p := openThroughProxy(t, server)
	do(t, server, "SET", "late", "another's")
	waiter := testkit.Waiting(t, s, claim("late"))
	release := p.Hold(proxy.Replies)
	keepInVain(t, s, waiter)
	release()
	do(t, server, "DEL", "late")
	waiter.Ticket = testkit.Keep(t, s, waiter, store.Held).Ticket
	as := detach(t, s, waiter, ttl)
	testkit.Leave(t, s, as)
	testkit.Join(t, s, &waiter, store.Gone) // as the try would, that comes now
}

// A value that a function of the program makes has no ticket, so that a client that attached the lock would not
// know it.
func TestPlainDetachNeedsOwnValue(t *testing.T) {
	server := servers.Redis(t)
	s := newOf(t, handIn(t, server.Addr()), redisstore.WithPlainMode(),
		redisstore.WithValue(func(c store.Claim) string { return c.ID.String() }))
	if s.Abilities().Detach {
		t.Error("it says that locks can be detached")
	}
	c := testkit.Held(t, s, claim("own"))
	_, detached := s.Detach(t.Context(), c, heirOf(c).ID, ttl)
	_, attached := s.Attach(t.Context(), heirOf(c), c.ID)
	for _, err := range []error{detached, attached} {
		if !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "WithValue") {
			t.Errorf("%v, want that it is not supported with WithValue", err)
		}
	}
	testkit.Keep(t, s, c, store.Held)
}

// A server that does not permit Detach says so for good. The caller then leaves nothing, and the client forgets the
// claim all the same.
func TestPlainDetachForbidden(t *testing.T) {
	server := servers.Redis(t)
	s := openAt(t, "redis://"+server.Addr()+"?mode=plain")
	c := testkit.Held(t, s, claim("forbidden"))
	do(t, server, "ACL", "SETUSER", "default", "-evalsha", "-eval")
	_, err := s.Detach(t.Context(), c, heirOf(c).ID, ttl)
	checkFault(t, err, true, "lacks a permission")
	if n := redisstore.PlainClaims(s); n != 0 {
		t.Errorf("%d claims are known to the client", n)
	}
}

package testkit

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// DetachedFor is how long claims are detached in tests: until their end.
const DetachedFor = 10 * time.Minute

// A DetachStore is a store whose claims can be detached.
type DetachStore interface {
	store.Store
	store.Detacher
}

// Heir returns a claim like c with an ID of its own, for Detach and Attach.
func Heir(c store.Claim) store.Claim {
	heir := Claim(c.Name, c.TTL)
	heir.Demand = c.Demand
	return heir
}

// Detached detaches a claim, which must work, and returns it with its new ID.
func Detached(t testing.TB, s DetachStore, c store.Claim) store.Claim {
	t.Helper()
	return DetachedAs(t, s, c, Heir(c), DetachedFor)
}

// DetachedAs is Detached for a time, with the ID of as.
func DetachedAs(t testing.TB, s DetachStore, c, as store.Claim, d time.Duration) store.Claim {
	t.Helper()
	status, err := s.Detach(t.Context(), c, as.ID, d)
	if err != nil || status.State != store.Held || status.Ticket != c.Ticket {
		t.Fatalf("Detach of %q with ticket %d: %v with ticket %d, %v",
			c.Name, c.Ticket, status.State, status.Ticket, err)
	}
	as.Ticket = status.Ticket
	return as
}

// Attached attaches a detached claim, which must work, and returns it with a new ID.
func Attached(t testing.TB, s DetachStore, from store.Claim) store.Claim {
	t.Helper()
	return AttachedAs(t, s, Heir(from), from)
}

// AttachedAs is Attached with the ID of c.
func AttachedAs(t testing.TB, s DetachStore, c, from store.Claim) store.Claim {
	t.Helper()
	status, err := s.Attach(t.Context(), c, from.ID)
	if err != nil || status.State != store.Held || status.Ticket != from.Ticket {
		t.Fatalf("Attach of %q with ticket %d: %v with ticket %d, %v",
			c.Name, from.Ticket, status.State, status.Ticket, err)
	}
	c.Ticket = status.Ticket
	return c
}

// A Fate is what becomes of the requests that move a claim from one session to another.
type Fate int

// The fates.
const (
	Unanswered Fate = iota // it is carried out, and its response is lost
	Stranded               // it is in flight until Land
	Denied                 // it is refused for good
)

// A DetachTest is a server, and a client of a store whose claims end with its session, and whose requests can be lost.
// The same is done to all such stores.
type DetachTest struct {
	*testing.T
	Store DetachStore
	TTL   time.Duration // of its session

	// Open opens another client.
	Open func() DetachStore
	// Send makes a call whose requests that move a claim have this fate, and returns its error.
	Send func(to Fate, call func(context.Context) error) error
	// Land has arrive what is in flight, and reports whether it was carried out.
	Land func() bool
	// AwaitSessions waits until the server has so many sessions, of clients and of detached claims.
	AwaitSessions func(n int)
}

// Held returns a claim that the client with the lost requests holds.
func (d *DetachTest) Held(name string) store.Claim {
	d.Helper()
	return Held(d, d.Store, Claim(name, d.TTL))
}

// MustFail makes a call that must fail, and may have been carried out.
func (d *DetachTest) MustFail(to Fate, call func(context.Context) error) {
	d.Helper()
	if err := d.Send(to, call); err == nil || store.Final(err) {
		d.Fatalf("a call without a response: %v", err)
	}
}

// FailToDetach calls Detach, which must fail and may have been carried out.
func (d *DetachTest) FailToDetach(to Fate, c, as store.Claim) {
	d.Helper()
	d.MustFail(to, func(ctx context.Context) error {
		_, err := d.Store.Detach(ctx, c, as.ID, DetachedFor)
		return err
	})
}

// FailToAttach calls Attach, which must fail and may have been carried out.
func (d *DetachTest) FailToAttach(to Fate, c, from store.Claim) {
	d.Helper()
	d.MustFail(to, func(ctx context.Context) error {
		_, err := d.Store.Attach(ctx, c, from.ID)
		return err
	})
}

// MustBeVoid has arrive what is in flight. It must not be carried out.
func (d *DetachTest) MustBeVoid() {
	d.Helper()
	if d.Land() {
		d.Error("a late request was carried out")
	}
}

// TestDetachLandsAfterItsLeave has the caller of a Detach without a response leave its new ID. The Detach arrives after
// that, and must be void: the claim would be in the queue for as long as it was to be detached.
func (d *DetachTest) TestDetachLandsAfterItsLeave() {
	d.Helper()
	c := d.Held("a")
	as := Heir(c)
	d.FailToDetach(Stranded, c, as)
	Leave(d, d.Store, as)
	d.MustBeVoid()
	Keep(d, d.Store, c, store.Held)
	if status, err := d.Store.Detach(d.Context(), c, as.ID, DetachedFor); err != nil || status.State != store.Gone {
		d.Errorf("Detach after the Leave of its new ID: %v and %v", status.State, err)
	}
	Leave(d, d.Store, c)
	CheckLength(d, d.Store, "a", 0)
	d.AwaitSessions(1)
}

// TestAttachLandsAfterItsLeave is the same for an Attach: the detached claim stays as it was, and another client can
// attach it.
func (d *DetachTest) TestAttachLandsAfterItsLeave() {
	d.Helper()
	other := d.Open()
	as := Detached(d, other, Held(d, other, Claim("a", d.TTL)))
	late := Heir(as)
	d.FailToAttach(Stranded, late, as)
	Leave(d, d.Store, late)
	d.MustBeVoid()
	Leave(d, other, Attached(d, other, as))
	CheckLength(d, d.Store, "a", 0)
	d.AwaitSessions(2)
}

// afterLostResponse are what the caller of a Detach may do whose response was lost.
var afterLostResponse = map[string]func(d *DetachTest, c, as store.Claim){
	"repeated": func(d *DetachTest, c, as store.Claim) {
		as = DetachedAs(d, d.Store, c, as, DetachedFor)
		Leave(d, d.Store, Attached(d, d.Store, as))
	},
	"left": func(d *DetachTest, c, as store.Claim) {
		Leave(d, d.Store, c)
		Leave(d, d.Store, as)
	},
	"left in the other order": func(d *DetachTest, c, as store.Claim) {
		Leave(d, d.Store, as)
		Leave(d, d.Store, c)
	},
	"kept and left": func(d *DetachTest, c, as store.Claim) {
		Ask(d, d.Store, c)
		Leave(d, d.Store, as)
		Leave(d, d.Store, c)
	},
}

// TestResponseToDetachIsLost has a caller whose response was lost repeat the call, or leave both IDs. In the end no
// claim and no session is left, and a request that was in flight is void.
func TestResponseToDetachIsLost(t *testing.T, newTest func(*testing.T) *DetachTest) {
	t.Helper()
	for name, then := range afterLostResponse {
		for lost, fate := range map[string]Fate{"after": Unanswered, "before": Stranded} {
			t.Run(name+" "+lost, func(t *testing.T) {
				d := newTest(t) // in parallel
				c := d.Held("a")
				as := Heir(c)
				d.FailToDetach(fate, c, as)
				then(d, c, as)
				if fate == Stranded {
					d.MustBeVoid()
				}
				CheckLength(t, d.Store, "a", 0)
				d.AwaitSessions(1)
				Leave(t, d.Store, d.Held("a"))
			})
		}
	}
}

// TestResponseToAttachIsLost loses the response to an Attach. It is repeated, or its claim is left.
func (d *DetachTest) TestResponseToAttachIsLost() {
	d.Helper()
	for _, repeat := range []bool{true, false} {
		as := Detached(d, d.Store, d.Held("a"))
		attached := Heir(as)
		d.FailToAttach(Unanswered, attached, as)
		if repeat {
			attached = AttachedAs(d, d.Store, attached, as)
			Keep(d, d.Store, attached, store.Held)
		}
		Leave(d, d.Store, attached)
		CheckLength(d, d.Store, "a", 0)
		d.AwaitSessions(1)
	}
}

// TestLeaveOfEarlierID has a Detach carried out whose response is lost, and the claim attached. Then the first client
// leaves what it believes to have. That must not touch the claim, which has the same key and the same ticket.
func (d *DetachTest) TestLeaveOfEarlierID() {
	d.Helper()
	for name, attaching := range map[string]DetachStore{"another client": d.Open(), "the same client": d.Store} {
		c := d.Held(name)
		as := Heir(c)
		d.FailToDetach(Unanswered, c, as)
		known := as
		known.Ticket = c.Ticket
		attached := Attached(d, attaching, known)
		Leave(d, d.Store, c)
		Leave(d, d.Store, as)
		Keep(d, d.Store, c, store.Gone)
		Keep(d, attaching, attached, store.Held)
		Leave(d, attaching, attached)
		CheckLength(d, d.Store, name, 0)
	}
}

// TestWaitingIsNotDetached detaches a claim that waits: it would be taken for a held one. After that error no caller
// leaves it.
func (d *DetachTest) TestWaitingIsNotDetached() {
	d.Helper()
	d.Held("a")
	waiter := Waiting(d, d.Store, Claim("a", d.TTL))
	if status, err := d.Store.Detach(d.Context(), waiter, Heir(waiter).ID, DetachedFor); !store.Final(err) {
		d.Errorf("Detach of a claim that waits: %v and %v", status.State, err)
	}
	Await(d, "it is deleted", func() bool { return Length(d, d.Store, "a") == 1 })
	Keep(d, d.Store, waiter, store.Gone)
}

// TestRefusedDetach has a server refuse a Detach for good. That leaves nothing: after a final error no caller leaves
// the claim. An Extend that is refused leaves the detached claim as it was.
func (d *DetachTest) TestRefusedDetach() {
	d.Helper()
	refused := func(c, as store.Claim) {
		d.Helper()
		err := d.Send(Denied, func(ctx context.Context) error {
			_, err := d.Store.Detach(ctx, c, as.ID, DetachedFor)
			return err
		})
		if !store.Final(err) {
			d.Errorf("a refused Detach: %v", err)
		}
	}
	c := d.Held("a")
	refused(c, Heir(c))
	Await(d, "the claim is deleted", func() bool { return Length(d, d.Store, "a") == 0 })
	d.AwaitSessions(1)
	as := Detached(d, d.Store, d.Held("a"))
	refused(as, as)
	d.AwaitSessions(2)
	Attached(d, d.Store, as)
}

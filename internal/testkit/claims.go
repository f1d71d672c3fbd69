package testkit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// Locate parses a store's URL.
func Locate(t testing.TB, raw string) store.Location {
	t.Helper()
	at, err := store.ParseLocation(raw)
	Must(t, err)
	return at
}

// Open opens the store at a URL. It is closed at the end of the test.
func Open(t testing.TB, raw string) store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), Locate(t, raw))
	Must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// Claim returns a claim of an exclusive lock, with an ID of its own.
func Claim(name string, ttl time.Duration) store.Claim {
	c := store.Claim{
		Name: name, TTL: ttl, Owner: &store.Owner{Label: "test"},
		Demand: store.Demand{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders},
	}
	rand.Read(c.ID[:])
	return c
}

// Join joins, checks the state, and stores the ticket in the claim.
func Join(t testing.TB, s store.Store, c *store.Claim, want store.State) store.Status {
	t.Helper()
	status, err := s.Join(t.Context(), *c)
	if err != nil || status.State != want {
		t.Fatalf("Join of %q: %v and %v, want %v", c.Name, status.State, err, want)
	}
	c.Ticket = status.Ticket
	return status
}

// Held joins, checks that the claim is held, and returns it with its ticket.
func Held(t testing.TB, s store.Store, c store.Claim) store.Claim {
	t.Helper()
	Join(t, s, &c, store.Held)
	return c
}

// Waiting joins, checks that the claim waits, and returns it with its ticket.
func Waiting(t testing.TB, s store.Store, c store.Claim) store.Claim {
	t.Helper()
	Join(t, s, &c, store.Waiting)
	return c
}

// Ask keeps one claim and returns its status.
func Ask(t testing.TB, s store.Store, c store.Claim) store.Status {
	t.Helper()
	statuses, err := s.Keep(t.Context(), []store.Claim{c})
	if err != nil || len(statuses) != 1 || statuses[0].Err != nil {
		t.Fatalf("Keep of %q: %+v and %v", c.Name, statuses, err)
	}
	return statuses[0]
}

// Keep keeps one claim and checks its state.
func Keep(t testing.TB, s store.Store, c store.Claim, want store.State) store.Status {
	t.Helper()
	status := Ask(t, s, c)
	if status.State != want {
		t.Fatalf("Keep of %q: %v, want %v", c.Name, status.State, want)
	}
	return status
}

// Holds keeps a claim and reports whether it is held. It returns false on an error.
func Holds(ctx context.Context, s store.Store, c store.Claim) bool {
	statuses, err := s.Keep(ctx, []store.Claim{c})
	return err == nil && statuses[0].Err == nil && statuses[0].State == store.Held
}

// AwaitHeld keeps a claim until it is held.
func AwaitHeld(t testing.TB, s store.Store, c store.Claim) {
	t.Helper()
	Await(t, c.Name+" is granted", func() bool { return Ask(t, s, c).State == store.Held })
}

// Detach detaches a held claim for a minute.
func Detach(t testing.TB, s store.Store, c store.Claim, as store.ID) {
	t.Helper()
	DetachedAs(t, s.(DetachStore), c, store.Claim{ID: as}, time.Minute)
}

// Attach attaches a detached claim as c.
func Attach(t testing.TB, s store.Store, c store.Claim, from store.ID) {
	t.Helper()
	AttachedAs(t, s.(DetachStore), c, store.Claim{ID: from, Ticket: c.Ticket})
}

// Leave releases a claim.
func Leave(t testing.TB, s store.Store, c store.Claim) {
	t.Helper()
	if err := s.Leave(t.Context(), c); err != nil {
		t.Fatalf("Leave of %q: %v", c.Name, err)
	}
}

// Length returns the number of claims in a queue.
func Length(t testing.TB, s store.Store, name string) int {
	t.Helper()
	l, err := s.Queue(t.Context(), name)
	Must(t, err)
	return len(l.Entries)
}

// CheckLength checks the number of claims in a queue.
func CheckLength(t testing.TB, s store.Store, name string, want int) {
	t.Helper()
	if n := Length(t, s, name); n != want {
		t.Errorf("%d claims stand in line %q, want %d", n, name, want)
	}
}

// Listen returns the IDs of the claims for which the store pushes from now on.
func Listen(s store.Store) <-chan store.ID {
	told := make(chan store.ID, 1000)
	s.Notify(func(id store.ID, _ store.Status) { told <- id })
	return told
}

// NextTold waits for the next push and returns its ID.
func NextTold(t testing.TB, told <-chan store.ID, what string) store.ID {
	t.Helper()
	select {
	case id := <-told:
		return id
	case <-time.After(Patience):
		t.Fatalf("%s: not after %v", what, Patience)
		panic("unreachable")
	}
}

// AwaitTold waits for a push for this claim. Pushes for other claims are dropped.
func AwaitTold(t testing.TB, told <-chan store.ID, id store.ID, what string) {
	t.Helper()
	for NextTold(t, told, what) != id {
	}
}

// Passes reports whether an error is a fault of the store that is not final.
func Passes(err error) bool {
	fault, ok := errors.AsType[*store.Fault](err)
	return ok && !fault.Final
}

// Lock locks a mutex.
func Lock(t testing.TB, locks *holdfast.Client, name string, options ...holdfast.Option) *holdfast.Lease {
	t.Helper()
	lease, err := locks.Mutex(name, options...).Lock(t.Context())
	Must(t, err)
	return lease
}

// Unlock releases a lease.
func Unlock(t testing.TB, lease *holdfast.Lease) {
	t.Helper()
	Check(t, lease.Unlock(t.Context()))
}

// Turns checks that holders of one lock exclude each other and that their tokens rise.
type Turns struct {
	turn sync.Mutex
	last holdfast.Token
}

// Take is for (*holdfast.Mutex).Do.
func (u *Turns) Take(ctx context.Context) error {
	if !u.turn.TryLock() {
		return errors.New("two at once")
	}
	defer u.turn.Unlock()
	token, _ := holdfast.TokenFrom(ctx)
	if token <= u.last {
		return fmt.Errorf("token %v after %v", token, u.last)
	}
	u.last = token
	return nil
}

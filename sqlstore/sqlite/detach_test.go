//go:build unix

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

func init() { childJobs["detach"] = childDetach }

// childDetach detaches the claim of a mutex, says under which ID, and does nothing until its input ends. Another claim
// stays its own.
func childDetach(args []string) error {
	ctx := context.Background()
	e, err := newEngine(ctx, args[0])
	if err != nil {
		return err
	}
	detached := longClaim("detached")
	for _, c := range []*store.Claim{detached, longClaim("own")} {
		if a, err := e.Join(ctx, c); err != nil || a.State != store.Held {
			return fmt.Errorf("Join: %v, %w", a.State, err)
		}
	}
	as := store.ID{2}
	if a, err := e.Detach(ctx, detached, as, long); err != nil || a.State != store.Held {
		return fmt.Errorf("Detach: %v, %w", a.State, err)
	}
	fmt.Println(as)
	return childStay(nil)
}

// TestDetachedOutlivesKilledProcess: a process is killed after it has detached a claim. Its other claim is removed at
// once, and the detached one blocks a waiter until another process attaches and releases it.
func TestDetachedOutlivesKilledProcess(t *testing.T) {
	path := newPath(t)
	client := startChild(t, "detach", path)
	if !client.lines.Scan() {
		t.Fatal("the child ended")
	}
	var as store.ID
	check(t, as.UnmarshalText(client.lines.Bytes()))
	e := open(t, path)
	waiter := longClaim("detached")
	join(t, e, waiter, store.Waiting)
	client.bury()
	join(t, e, longClaim("own"), store.Held)
	check(t, e.Sweep(t.Context()))
	if a, err := e.Poll(t.Context(), []store.Claim{*waiter}); err != nil || a[0].State != store.Waiting {
		t.Errorf("behind a detached claim whose client was killed: %v, %v", a, err)
	}
	if queue, err := e.Queue(t.Context(), "detached"); err != nil || len(queue.Entries) != 2 {
		t.Errorf("the queue has %d claims, want 2; %v", len(queue.Entries), err)
	}
	heir := longClaim("detached")
	a, err := e.Attach(t.Context(), heir, as)
	if err != nil || a.State != store.Held || a.Ticket >= waiter.Ticket {
		t.Errorf("Attach: %v with ticket %d, %v", a.State, a.Ticket, err)
	}
	heir.Ticket = a.Ticket
	check(t, e.Leave(t.Context(), heir))
	wantState(t, path, waiter, store.Held)
}

// TestAttachedEndsWithItsClient: an attached claim is one of its new client, and is removed when that client dies.
func TestAttachedEndsWithItsClient(t *testing.T) {
	path := newPath(t)
	a, b, c := open(t, path), open(t, path), open(t, path)
	holder, heir, as := longClaim("x"), longClaim("x"), store.ID{3}
	join(t, a, holder, store.Held)
	_, err := a.Detach(t.Context(), holder, as, long)
	check(t, err)
	_, err = b.Attach(t.Context(), heir, as)
	check(t, err)
	if a.hasClaims() {
		t.Error("a claim that was detached and attached is still one of its first client")
	}
	check(t, a.Close())
	try := newClaim("x")
	try.Try = true
	join(t, c, try, store.Gone)
	die(t, b)
	join(t, c, newClaim("x"), store.Held)
}

// TestWaitingIsNotDetached: a claim that was believed held, and waits, is neither detached nor attached.
func TestWaitingIsNotDetached(t *testing.T) {
	path := newPath(t)
	e := open(t, path)
	join(t, e, newClaim("x"), store.Held)
	waiter := joined(t, e, "x", store.Waiting)
	if a, err := e.Detach(t.Context(), waiter, store.ID{4}, long); err != nil || a.State != store.Gone {
		t.Errorf("Detach of a waiting claim: %v, %v", a.State, err)
	}
	if a, err := e.Attach(t.Context(), newClaim("x"), waiter.ID); err != nil || a.State != store.Gone {
		t.Errorf("Attach of a waiting claim: %v, %v", a.State, err)
	}
	wantState(t, path, waiter, store.Waiting)
}

// TestMismatchWithFirst: claims with several limits are in one queue. A claim that accepts one limit only is compared
// with the first of them.
func TestMismatchWithFirst(t *testing.T) {
	path := newPath(t)
	e := open(t, path)
	claim := func(limit int32, anyLimit bool) *store.Claim {
		c := newClaim("x")
		c.Demand, c.AnyLimit = store.Demand{Kind: store.Semaphore, Units: 1, Limit: limit}, anyLimit
		return c
	}
	join(t, e, claim(3, true), store.Held)
	join(t, e, claim(5, true), store.Held)
	join(t, e, claim(2, true), store.Waiting)
	for _, limit := range []int32{2, 5} {
		_, err := e.Join(t.Context(), claim(limit, false))
		if mismatch, ok := errors.AsType[*store.MismatchError](err); !ok || mismatch.InUse.Limit != 3 {
			t.Errorf("a claim with limit %d behind claims of 3, 5 and 2: %v", limit, err)
		}
	}
	join(t, e, claim(3, false), store.Waiting)
}

// TestDetachedExpires: a client that waits behind a detached claim is granted when that expires, also if it would
// have lived for longer.
func TestDetachedExpires(t *testing.T) {
	path := newPath(t)
	s := newStore(open(t, path))
	t.Cleanup(func() { s.Close() })
	granted := make(chan store.ID, 8)
	s.Notify(func(id store.ID, status store.Status) {
		if status.State == store.Held {
			granted <- id
		}
	})
	holder, waiter := longClaim("x"), longClaim("x")
	for _, c := range []*store.Claim{holder, waiter} {
		_, err := s.Join(t.Context(), *c)
		check(t, err)
	}
	const d = 300 * time.Millisecond
	start := time.Now()
	_, err := s.Detach(t.Context(), *holder, store.ID{5}, d)
	check(t, err)
	select {
	case id := <-granted:
		if id != waiter.ID || time.Since(start) < d {
			t.Errorf("%v was granted after %v", id, time.Since(start))
		}
	case <-time.After(soon):
		t.Error("the waiter was not granted")
	}
}
